"""Tests the native set of sizes and strides that tells whether a compiled model has met a call's sizes."""

import pytest
import torch

from lamina import _native


class Wrapped(torch.Tensor):
    """A tensor subclass that native code does not read directly."""


def test_sizes_and_strides_count() -> None:
    seen = _native.SeenSizes((0, 2), 8)
    x, other = torch.zeros(3, 4), torch.zeros(5)
    seen.add((x, other, other))
    assert seen.holds([torch.ones(3, 4), torch.zeros(9), other])
    assert not seen.holds((torch.zeros(4, 3).t(), other, other))
    assert not seen.holds((torch.zeros(12), other, other))
    assert not seen.holds((x, other, x))
    seen.clear()
    assert not seen.holds((x, other, other))


def test_a_subclass_is_asked_for_its_sizes() -> None:
    seen = _native.SeenSizes((0,), 8)
    seen.add((torch.zeros(3, 4).as_subclass(Wrapped),))
    assert seen.holds((torch.zeros(3, 4),))


def test_it_is_bounded() -> None:
    seen = _native.SeenSizes((0,), 2)
    for n in range(3):
        seen.add((torch.zeros(n),))
    assert [seen.holds((torch.zeros(n),)) for n in range(3)] == [False, False, True]


def test_too_few_tensors() -> None:
    with pytest.raises(IndexError):
        _native.SeenSizes((1,), 2).holds((torch.zeros(1),))

"""Tests that results that eager stores in new memory share none with an argument, although their elements are an argument's."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "windows of one": lambda x: F.max_pool2d(x, 1),
    "blocks of one": lambda x: F.adaptive_max_pool3d(x, x.shape[-3:]),
    "a copied view": lambda x: torch.view_copy(x, (x.shape[0] * x.shape[1], -1)),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, transposed: bool) -> None:
    fn, x = CASES[name], torch.randn(4, 5, 3, 6)
    x = x.mT.contiguous().mT if transposed else x
    torch._dynamo.reset()
    found, want = torch.compile(fn, backend="lamina", options={"cache": False})(x), fn(x)
    assert torch.equal(found, want) and found.stride() == want.stride()
    assert found.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_views_that_no_schema_tells() -> None:
    """torch does not declare the pieces of unsafe_chunk as views; eager's are views, with a view's strides."""
    x = torch.randn(5, 5, 5)
    torch._dynamo.reset()
    found = torch.compile(lambda x: torch.unsafe_chunk(x, 5, 1), backend="lamina", options={"cache": False})(x)
    assert [t.stride() for t in found] == [t.stride() for t in torch.unsafe_chunk(x, 5, 1)]

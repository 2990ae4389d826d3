"""Tests the estimated times of convolutions by layout against the measurements behind them."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from lamina.core.gpu import Gpu
from lamina.schedules import convolution_layout
from lamina.schedules.convolution_layout import CALLS, ConvolutionShape, measured_convolutions, seconds

GPU = Gpu.named("sm_90a")
COMMON = ConvolutionShape("bf16", 32, 64, 64, 56, 3, 1, 1, 1, False)


def test_the_table_is_read_whole() -> None:
    assert len(measured_convolutions()) > 1000
    assert {line.dtype for line in measured_convolutions()} == {"f32", "bf16", "f16"}
    assert all(min(min(pair) for pair in line.seconds) > 0 for line in measured_convolutions())


def test_choices_for_convolutions_left_out_are_near_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-validation: each line is estimated from the others. The choices are far better than one layout for all."""
    ratios: dict[str, list[float]] = {"chosen": [], "first": [], "last": []}
    neighbors = convolution_layout._neighbors
    for line in random.Random(0).sample(measured_convolutions(), 300):
        positions, distances = neighbors(line.family)
        others = np.abs(positions - line.position).sum(axis=1) > 0
        if others.sum() < 8:
            continue
        monkeypatch.setattr(convolution_layout, "_neighbors", lambda _, p=positions[others], d=distances[others]: (p, d))
        for call, times in zip(CALLS, line.seconds, strict=True):
            first, last = seconds(line, call, GPU)
            for name, i in (("chosen", last < first), ("first", 0), ("last", 1)):
                ratios[name].append(math.log(times[i] / min(times)))
    regret = {name: math.exp(sum(logs) / len(logs)) for name, logs in ratios.items()}
    assert regret["chosen"] < 1.12
    assert regret["chosen"] < min(regret["first"], regret["last"]) - 0.05


def test_known_preferences() -> None:
    first, last = seconds(COMMON, "f", GPU)
    assert last < first
    first, last = seconds(replace(COMMON, features=128, groups=64), "f", GPU)  # two filters a channel
    assert first < last
    first, last = seconds(ConvolutionShape("f32", 16, 96, 96, 56, 7, 96, 1, 1, False), "w", GPU)
    assert first < last


@pytest.mark.parametrize("groups", [1, 4, 64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_every_kind_has_an_estimate(groups: int, transposed: bool, dtype: str) -> None:
    for features in (64, 128):
        shape = replace(COMMON, dtype=dtype, groups=groups, transposed=transposed, features=features)
        for calls in ("f", "d", "w", "dw"):
            assert all(0 < t < 1 for t in seconds(shape, calls, GPU))


def test_times_scale_with_the_machine() -> None:
    slow, fast = (seconds(COMMON, "f", Gpu.named(arch)) for arch in ("sm_86", "sm_90a"))
    assert slow[0] > fast[0]
    assert slow[1] > fast[1]

"""Checks with ptxas that GPU kernels that hold rows in registers do not spill, and that two CTAs fit on a multiprocessor where
requested."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET, tiled
from kernel_inputs import BF16, x
from torch import Tensor

from lamina.core.target import Target
from lamina.targets import backend

HALF = 65536 // (2 * 512)  # registers of a thread where two CTAs of 512 share a multiprocessor


def added(a: Tensor, b: Tensor, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return a + b, F.layer_norm(a + b, w.shape, w, c)


def images(a: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.group_norm(a, 32, w, b))


CASES: dict[str, tuple[Callable[..., Any], list[Tensor], int]] = {
    "softmax": (lambda a: torch.softmax(a, -1), [x(40, 50257)], HALF),
    "group norm": (images, [x(1, 320, 48, 48, dtype=BF16), x(320, dtype=BF16), x(320, dtype=BF16)], HALF),
    "group norm, f32": (images, [x(1, 512, 64, 64), x(512), x(512)], HALF),
    "two inputs, few elements": (added, [x(40, 20480), x(40, 20480), x(20480), x(20480)], HALF),
    "two inputs": (added, [x(40, 131072), x(40, 131072), x(131072), x(131072)], 128),
    "the greatest of rows": (lambda a: torch.topk(a.softmax(-1), 8), [x(40, 256)], 64),
    "many of the greatest": (lambda a: torch.topk(a, 16), [x(40, 1024)], 128),
    "a sort": (lambda a: a.sort(-1), [x(4000, 1024)], 64),
    "a scan": (lambda a: a.cumsum(-1), [x(40, 50257)], 128),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_spills(name: str) -> None:
    fn, inputs, most = CASES[name]
    module, _ = tiled(fn, inputs)
    for needs in backend(Target.parse(TARGET)).compile(module).resources:
        assert needs.spill_stores == needs.spill_loads == needs.stack == 0
        assert needs.registers <= most

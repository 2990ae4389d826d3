"""Tests kernels for ranges of a row's length: in the simulator against float64, and when they are compiled."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sized_programs import TARGET, compiled, kernels, launches
from torch import Tensor
from watched import loaded_programs, steps_of

from lamina.core.program import Launch
from lamina.frontend.compiling import bindable
from lamina.frontend.compiling.worker import WORKER, finish
from lamina.targets.nvvm.backend import NvvmBackend

__all__ = ["kernels", "launches"]
F = torch.nn.functional
LENGTHS = (3, 129, 1000, 4097)
ALL_LENGTHS = (3, 127, 128, 129, 1000, 1001, 4097, 4100)

KERNELS = {
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "RMS norm": lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(),
    "cross-entropy": lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % 3),
    "sum": lambda x: x.exp().sum(-1),
    "argmax": lambda x: x.argmax(-1),
    "variance": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "cumulative sum": lambda x: x.cumsum(-1),
}


RANGES = {
    3: "to_13", 127: "to_189", 128: "to_128_by_4", 129: "to_189", 1000: "to_1024_by_4", 1001: "to_1021", 4097: "to_6141", 4100: "to_6144_by_4",
}  # fmt: skip
"""The kernel for each length. Rows that start amid an access of four elements take up to three more."""


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", KERNELS)
def test_any_length(name: str, kernels: list[str]) -> None:
    """Each length is computed twice: by the kernel for any length or for another range, and by the one for its range."""
    run = compiled(KERNELS[name])
    for length in ALL_LENGTHS if name == "softmax" else LENGTHS:
        x = torch.randn(3, length)
        want = KERNELS[name](x.double())
        for _ in range(2):
            got = run(x)
            assert (got - want).abs().max() <= 3e-6 * max(1, want.abs().max())
            finish()
        if name == "softmax":
            assert RANGES[length] in kernels[-1]


@pytest.mark.parametrize("name", ["softmax", "layer norm", "RMS norm"])
def test_halves(name: str, kernels: list[str]) -> None:
    """An access has eight elements, and results are rounded once."""
    run = compiled(KERNELS[name])
    for length, kernel in ((264, "to_384_by_8"), (1001, "to_1017"), (2048, "to_2048_by_8")):
        x = torch.randn(3, length, dtype=torch.bfloat16)
        want = KERNELS[name](x.double())
        for _ in range(2):
            assert (run(x) - want).abs().max() <= 2**-8 * want.abs().max()
            finish()
        assert kernels[-1].removesuffix("_early").endswith(kernel)


IMAGES = {
    "deviation": lambda x: x.std((2, 3)),
    "group norm": lambda x: F.group_norm(x, 4),
    "scaled channels": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", IMAGES)
def test_rows_of_pixels(name: str, kernels: list[str]) -> None:
    """The length of a row is a product of symbols."""
    run = compiled(IMAGES[name])
    for height, width, kernel in ((9, 17, "to_189"), (4, 7, "to_32_by_4"), (6, 20, "to_128_by_4"), (12, 12, "to_192_by_4")):
        x = torch.randn(11, 4, height, width)
        torch._dynamo.mark_static(x, 1)
        want = IMAGES[name](x.double())
        for _ in range(2):
            got = run(x)
            assert (got - want).abs().max() <= 3e-6 * max(1, want.abs().max())
            finish()
        assert kernels[-1].removesuffix("_early").endswith(kernel)


def test_rows_of_square_images(kernels: list[str]) -> None:
    """Height and width are the same symbol, whose square is the length of a row."""
    torch._dynamo.reset()
    run = compiled(IMAGES["scaled channels"])
    for side, kernel in ((10, "to_128_by_4"), (13, "to_189")):
        x = torch.randn(11, 4, side, side)
        torch._dynamo.mark_static(x, 1)
        for _ in range(2):
            torch.testing.assert_close(run(x), IMAGES["scaled channels"](x.double()).float(), atol=3e-6, rtol=0)
            finish()
        assert kernels[-1].removesuffix("_early").endswith(kernel)


def test_a_length_that_a_symbol_decides_with_others(kernels: list[str]) -> None:
    """The length is a sum, of which the symbol alone does not show whether it is a multiple of four, or a product with a number."""
    for kernel, lengths in (
        (lambda x: torch.cat((x, x[:, :1]), 1).softmax(-1), (999, 1000)),
        (lambda x: rows_of_three(x), (90, 400)),
    ):
        run = compiled(kernel)
        for length in lengths:
            x = torch.randn(3, length)
            for _ in range(2):
                torch.testing.assert_close(run(x), kernel(x.double()).float(), atol=1e-6, rtol=1e-6)
                finish()


def rows_of_three(x: Tensor) -> Tensor:
    return (x[:, :, None] * torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype)).flatten(1).softmax(-1)


def test_deterministic_calls_wait_for_their_kernels(kernels: list[str]) -> None:
    """A kernel for another range adds in another order."""
    run = compiled(KERNELS["softmax"])
    torch.use_deterministic_algorithms(True)
    try:
        for length in (7, 4096):
            run(torch.randn(3, length))
    finally:
        torch.use_deterministic_algorithms(False)
    assert kernels[-1] == "softmax_to_4096_by_4_early"


def test_kernels_of_later_calls_get_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's kernel for few rows is launched with the shared memory that its compiler reports."""
    programs = loaded_programs(monkeypatch)
    torch._dynamo.reset()
    linear = torch.nn.Linear(256, 512, dtype=torch.bfloat16)
    run = compiled(lambda x: F.gelu(linear(x)))
    for rows in (3000, 20, 20):
        with torch.no_grad():
            run(torch.randn(2, rows // 2, 256, dtype=torch.bfloat16))
        finish()
    found = [step for step in steps_of(programs) if isinstance(step, Launch)]
    assert "_to_" in found[-1].kernel and all(launch.shared > 0 for launch in found)


def test_kernels_that_cannot_be_compiled(kernels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other kernels are used instead, and compilation is not tried again. A call for which no kernel exists gets the error."""
    run = compiled(KERNELS["softmax"])
    run(torch.randn(3, 7))
    run(torch.randn(3, 70))  # waits for the kernel for any length
    finish()
    tried: list[Any] = []

    def fails(_: Any, names: list[str], __: Any) -> None:
        tried.append(names)
        raise ValueError("no ptxas")

    monkeypatch.setattr(bindable, "advance_kernels", fails)
    with pytest.warns(UserWarning, match="lamina compiled no kernel softmax_to_512_by_4: no ptxas"):
        for length in (400, 404, 400):
            x = torch.randn(3, length)
            torch.testing.assert_close(run(x), x.softmax(-1))
            finish()
    assert tried == [["softmax_to_512_by_4"]] and set(kernels[-3:]) == {"softmax"}
    run = compiled(KERNELS["variance"])
    run(torch.randn(3, 7))
    with pytest.raises(ValueError, match="no ptxas"):
        run(torch.randn(3, 70))


def test_the_first_call_compiles_what_it_needs(kernels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for other lengths or grids are not built before a call needs them; the one for any length serves the other lengths,
    also short rows."""
    compiled_kernels: list[tuple[str, ...]] = []
    compile_ = NvvmBackend.compile

    def compiling(*args: Any) -> Any:
        made = compile_(*args)
        compiled_kernels.append(made.kernels)
        return made

    monkeypatch.setattr(NvvmBackend, "compile", compiling)
    monkeypatch.setattr(WORKER, "add", lambda owner, task: None)
    run = compiled(KERNELS["softmax"])
    for shape in ((3, 1000), (3, 70), (3, 500), (40, 5), (7, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x).double(), x.double().softmax(-1), rtol=1e-5, atol=1e-7)
    assert compiled_kernels == [("softmax_to_1024_by_4_early",), ("softmax",)]


def test_kernels_of_later_calls_are_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    compilations: list[Any] = []
    compile_ = NvvmBackend.compile
    monkeypatch.setattr(NvvmBackend, "compile", lambda *args: compilations.append(args) or compile_(*args))
    for _ in range(2):
        torch._dynamo.reset()
        run = torch.compile(KERNELS["softmax"], backend="lamina", dynamic=True, options={"target": TARGET})
        for length in (7, 4096):
            run(torch.randn(3, length))
            finish()
    torch._dynamo.reset()
    assert len(compilations) == 3  # for 7, for any length, for 4096


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["softmax", "sum", "argmax", "variance"])
def test_rows_of_several_ctas(name: str, kernels: list[str], launches: list[Launch]) -> None:
    """The CTAs of a cluster loop over rows too long for registers, since a call may have few of them."""
    run = compiled(KERNELS[name])
    for shape in ((3, 70), (2, 140003), (1, 300000)):
        x = torch.randn(shape)
        want = KERNELS[name](x.double())
        assert (run(x) - want).abs().max() <= 1e-5 * max(1, want.abs().max())

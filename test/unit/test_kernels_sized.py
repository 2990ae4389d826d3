"""Tests kernels with symbolic sizes that lamina-distribute lowers for GPUs: in the simulator, against float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sized_programs import compiled, launches
from torch import Tensor
from watched import loaded_programs

from lamina.core.binding import bind
from lamina.core.options import Options
from lamina.core.program import Launch
from lamina.frontend.compiling import stages
from lamina.frontend.compiling.worker import WORKER
from lamina.schedules import nvvm
from lamina.targets.nvvm.backend import NvvmBackend

__all__ = ["launches"]
F = torch.nn.functional
Make = Callable[[int, int], Tensor]


def vectors(b: int, n: int) -> Tensor:
    return torch.randn(b, n)


SHAPES = ((4, 10, 12), (3, 7, 11))
FIXED = {shape: torch.nn.Parameter(torch.randn(shape), False) for shape in SHAPES}


def per_channel(x: Tensor) -> Tensor:
    """Normalizes over all dimensions but the second: a row is as many runs as there are images."""
    dims = (0, 2, 3)
    return (x - x.mean(dims, keepdim=True)) * (x.square().mean(dims, keepdim=True) + 1).rsqrt()


def of_fixed_runs(x: Tensor) -> Tensor:
    """As above, where the parameter's shape decides all sizes but the first."""
    shape = (x.shape[1], x.shape[2], x.shape[3])
    return per_channel(x.sin() + FIXED[shape].to(x.dtype))


KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], Make]] = {
    "elementwise": (lambda x: x.sin() * 2, vectors),
    "softmax": (lambda x: x.softmax(-1), vectors),
    "sum of columns": (lambda x: x.exp().sum(0), vectors),
    "transposed": (lambda x: x.t().contiguous() + 1, vectors),
    "part of a row": (lambda x: x[:, 1:-1] * 2, vectors),
    "scan": (lambda x: x.cumsum(1), vectors),
    "extrema so far": (lambda x: x.cummax(1).values + x.cummin(0).indices, vectors),
    "recurrence": (lambda x: torch.logcumsumexp(x, 1), vectors),
    "channels, runs of 120": (of_fixed_runs, lambda b, n: torch.randn(b, *SHAPES[0])),
    "channels, runs of 77": (of_fixed_runs, lambda b, n: torch.randn(b, *SHAPES[1])),
    "channels, runs of a symbol": (per_channel, lambda b, n: torch.randn(b, 3, 4, n)),
}


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", KERNELS)
def test_any_size(name: str, launches: list[Launch]) -> None:
    kernel, make = KERNELS[name]
    run = compiled(kernel)
    for sizes in ((6, 11), (3, 128), (33, 7), (2, 1000)):
        x = make(*sizes)
        got, want = run(x), kernel(x.double())
        assert got.shape == want.shape
        assert (got - want).abs().max() <= 3e-6 * max(1, want.abs().max())


@pytest.mark.filterwarnings("error")
def test_rows_left_over_by_turns_of_a_scan(launches: list[Launch]) -> None:
    """A turn reads as many rows as suit what a thread reads of each; those left over take shorter turns, then one by one."""

    def sums(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).cumsum(0)  # 6 bytes of a row: turns of 21 rows and of 5

    run = compiled(sums)
    for rows in (64, *range(2, 50)):
        x, y = torch.randn(rows, 5), torch.randn(rows, 5).bfloat16()
        assert (run(x, y) - sums(x.double(), y.double())).abs().max() <= 1e-5, rows


@pytest.mark.filterwarnings("error")
def test_fewer_rows_than_a_kernel_is_made_for(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of many rows serves the first calls with few ones, too."""
    monkeypatch.setattr(nvvm, "MANY_ELEMENTS", 1 << 15)
    monkeypatch.setattr(WORKER, "add", lambda *_: None)  # no other kernel is ever compiled

    def shifted(x: Tensor) -> Tensor:
        return (x - x[..., :1]) * 2

    run = compiled(shifted)
    for sizes in ((5, 4), (2, 3), (3, 2), (7, 5)):
        x = torch.randn(*sizes, 2051).bfloat16()
        torch._dynamo.mark_static(x, 2)
        assert ((run(x) - shifted(x.double())).abs() <= 2**-7 * shifted(x.double()).abs() + 1e-6).all()


def test_larger_tensors_than_32_bits_count(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels use 32-bit indices; the first call with larger tensors compiles a variant with 64-bit indices, which serves such
    calls."""
    monkeypatch.setattr(bind, "MOST_IN_32_BITS", 1000)
    compiled_with: list[bool] = []
    build = stages._build

    def watched(gm: Any, options: Options, *others: Any) -> stages.Built:
        compiled_with.append(options.wide_sizes)
        return build(gm, options, *others)

    monkeypatch.setattr(stages, "_build", watched)
    run = compiled(lambda x: (x.exp() + 1).sum(0))
    for sizes in ((6, 11), (3, 128), (33, 40), (50, 41)):
        x = vectors(*sizes)
        torch.testing.assert_close(run(x), (x.exp() + 1).sum(0))
    assert compiled_with == [False, True]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX of kernels, in the order in which they are compiled."""
    found: list[str] = []
    to_ptx = NvvmBackend.to_ptx

    def kept(self: NvvmBackend, llvm: str) -> str:
        found.append(to_ptx(self, llvm))
        return found[-1]

    monkeypatch.setattr(NvvmBackend, "to_ptx", kept)
    torch._dynamo.reset()
    return found


@pytest.mark.parametrize("wide", [False, True])
def test_width_of_indices(wide: bool, texts: list[str]) -> None:
    """Divisions of indices, frequent with symbolic sizes, take several times as long in 64 bits."""
    options = {"target": "null:nvvm:sm_90a", "cache": False, "wide_sizes": wide}
    run = torch.compile(lambda x, y: x.flip(1).t().reshape(-1) + y, backend="lamina", dynamic=True, options=options)
    run(torch.randn(6, 11), torch.randn(66))
    assert ("div.u64" in texts[0] or "rem.u64" in texts[0]) == wide


def positions(x: Tensor, y: Tensor) -> Tensor:
    """Numbers as many elements as x and y have together, in no tensor."""
    n, m = x.shape[0], y.shape[0]
    return torch.arange(n * m).view(n, m).remainder(7).sum(1) + x


def sums_of_positions(x: Tensor, y: Tensor) -> Tensor:
    return (torch.arange(x.shape[0])[:, None] * y.shape[0] + torch.arange(y.shape[0])).double().sum(1) + x


def draws(x: Tensor, y: Tensor) -> Tensor:
    """Draws by positions: where these wrapped, numbers would repeat."""
    return torch.rand(x.shape[0], y.shape[0]).sum(1) + x


@pytest.mark.parametrize("kernel", [positions, sums_of_positions, draws])
def test_positions_that_no_tensor_has_count_too(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may compute positions that need 64 bits though no tensor is that large: such calls use the 64-bit variant."""
    torch._dynamo.reset()
    programs = loaded_programs(monkeypatch)
    run = torch.compile(kernel, backend="lamina", dynamic=True, options={"target": "null:nvvm:sm_90a", "cache": False})
    run(torch.randn(6), torch.randn(11))
    run(torch.randn(1 << 14), torch.randn(1 << 15))
    run(torch.randn(1 << 15), torch.randn((1 << 15) + 1))
    counted = [{s.size_bytes for s in program.steps if isinstance(s, Launch) and s.sizes} for program in programs]
    assert counted == [{4}, {4}, {8}]


def every_third(x: Tensor) -> Tensor:
    """Writes to every third element: selects with symbolic ends, each between several loads."""
    x = x.clone()
    x[:, 1::3] = x[:, :1]
    x[::2, ::3] *= 2
    return x.exp()


def test_parts_whose_ends_a_call_decides(texts: list[str]) -> None:
    options = {"target": "null:nvvm:sm_90a", "cache": False, "strict": True}
    torch.compile(every_third, backend="lamina", dynamic=True, options=options)(torch.randn(13, 40))
    assert texts

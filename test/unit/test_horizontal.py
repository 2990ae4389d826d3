"""Tests lamina-horizontal: whole programs in the simulator against float64, and their launches."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed, tiled
from torch import Tensor, nn
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.program import Buffer, Launch, Program
from lamina.core.target import Target
from lamina.dialects import context
from lamina.passes.infra.pipeline import run
from lamina.targets.nvvm.backend import NvvmBackend

SIZES = [(5,), (768,), (3, 257), (64, 64), (768,), (1025,), (2, 3, 5), (768,), (1,)]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def launches(program: Program) -> list[Launch]:
    return [s for s in program.steps if isinstance(s, Launch)]


def check(fn: Callable[..., list[Tensor]], inputs: list[Tensor], expected: int, tolerance: float = 2e-6) -> Program:
    """Runs `fn` in the simulator in `expected` launches."""
    module, program = distributed(fn, inputs)
    assert len(launches(program)) == expected, [s.name for s in launches(program)]
    no_overlaps(program)
    found = Simulated(module, program)(*inputs)
    exact = fn(*(x.double() if x.is_floating_point() else x for x in inputs))
    for mine, right in zip(found, (x for x in exact if x.numel()), strict=True):  # a program has no results without elements
        assert mine.shape == right.shape
        assert (mine.double() - right).abs().max() <= tolerance * right.abs().max().clamp(min=1), right.shape
    return program


def no_overlaps(program: Program) -> None:
    """Buffers of the arena that are alive at the same time do not share memory, but where a step writes in place."""
    life: dict[int, list[int]] = {}
    in_place: set[tuple[int, int]] = set()
    for n, step in enumerate(program.steps):
        if isinstance(step, Launch):
            refs = list(step.args)
            in_place |= {(step.args[i].buffer, step.args[o].buffer) for i, o in step.inplace}
        else:
            refs = [r for r in (*step.args, *step.outs) if hasattr(r, "buffer")]
        for ref in refs:
            life.setdefault(ref.buffer, [n, n])[1] = n
    arena = [(i, b) for i, b in enumerate(program.buffers) if b.kind == "arena" and i in life]
    for i, a in arena:
        for j, b in arena:
            if i < j and _meet(a, b) and life[i][0] <= life[j][1] and life[j][0] <= life[i][1]:
                assert (i, j) in in_place and life[i][1] == life[j][0], f"buffers {i} and {j}"


def _meet(a: Buffer, b: Buffer) -> bool:
    return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


def adamw(*tensors: Tensor) -> list[Tensor]:
    n = len(tensors) // 4
    out: list[Tensor] = []
    for p, g, m, v in zip(*(tensors[i * n : (i + 1) * n] for i in range(4)), strict=True):
        m = torch.lerp(m, g, 0.1)
        v = torch.addcmul(v * 0.999, g, g, value=0.001)
        out += [torch.addcdiv(p * (1 - 1e-5), m, (v.sqrt() / 0.9) + 1e-8, value=-1e-3), m, v]
    return out


def test_an_optimizer_is_one_launch() -> None:
    inputs = [torch.rand(s) for _ in range(4) for s in SIZES]
    program = check(adamw, inputs, 1)
    (launch,) = launches(program)
    assert launch.n_out == 3 * len(SIZES) and launch.name.startswith(f"{len(SIZES)} x ")


def norms(*tensors: Tensor) -> list[Tensor]:
    return [F.layer_norm(x, x.shape[-1:]) for x in tensors]


def test_rows_of_many_lengths() -> None:
    """Kernels with barriers are joined if their CTAs have the same size; those without barriers are joined in CTAs of any size."""
    inputs = [torch.randn(n, m) for n, m in [(7, 64), (33, 100), (4, 33), (5, 768), (9, 768), (5, 768), (3, 1000), (2, 3000)]]
    check(norms, inputs, 2, 1e-5)


def test_equal_kernels_with_programs_that_share_a_warp() -> None:
    check(lambda *xs: [torch.softmax(x, -1) for x in xs], [torch.randn(3, 10) for _ in range(5)], 1)


def test_columns_in_teams() -> None:
    check(lambda *xs: [x.sum(0) for x in xs], [torch.randn(n, m) for n, m in [(100, 64), (37, 64), (100, 64), (64, 128)]], 1, 1e-5)


def test_an_argument_that_all_share() -> None:
    def fn(rate: Tensor, *xs: Tensor) -> list[Tensor]:
        return [x * rate for x in xs]

    program = check(fn, [torch.rand(()), *(torch.rand(s) for s in SIZES)], 1)
    assert len(launches(program)[0].args) == 1 + 2 * len(SIZES)


def test_nothing_that_waits_for_another_joins_it() -> None:
    def fn(x: Tensor, y: Tensor, w: Tensor) -> list[Tensor]:
        a = torch.relu(x) @ w
        b = torch.relu(a) @ w
        return [torch.relu(b), y.exp()]

    check(fn, [torch.rand(32, 32) - 0.5, torch.rand(7), torch.rand(32, 32) - 0.5], 3, 1e-5)


def test_later_launches_come_along_and_the_arena_stays_sound() -> None:
    """Casts of weights, each needed by a different product, are joined before the first product."""

    def fn(x: Tensor, *ws: Tensor) -> list[Tensor]:
        for w in ws:
            x = x @ (w * 2)
        return [x]

    program = check(fn, [torch.rand(8, 16), *(torch.rand(16, 16) / 8 for _ in range(4))], 1, 1e-5)
    assert len(program.steps) == 5


def test_results_without_elements() -> None:
    check(lambda *xs: [x + 1 for x in xs], [torch.rand(0, 3), torch.rand(4), torch.rand(0), torch.rand(5)], 1)


def test_large_launches_stay_alone() -> None:
    _, program = distributed(lambda x, y: [x + 1, y.exp()], [torch.empty(1 << 26), torch.empty(1 << 26)])
    assert len(launches(program)) == 2


def test_only_for_gpus() -> None:
    with pytest.raises(CompileError, match="target cpu is not a GPU"):
        run("builtin.module(lamina-horizontal{target=cpu})", ir.Module.parse("", context()))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(48), nn.LayerNorm(48)
        self.up, self.down = nn.Linear(48, 80), nn.Linear(80, 48)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(x + self.down(F.gelu(self.up(self.first(x)))))


def test_gradients_of_a_block() -> None:
    """Sums for weights and biases, which no other kernel reads, are joined, and so are others; values in the arena do not
    overlap."""
    model = Block()
    names = [n for n, _ in model.named_parameters()]

    def fn(x: Tensor, *values: Tensor) -> list[Tensor]:
        def loss(*values: Tensor) -> Tensor:
            return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,)).sin().sum()

        return list(torch.func.grad(loss, argnums=tuple(range(len(values))))(*values))

    inputs = [torch.randn(37, 48), *model.parameters()]
    module, program = distributed(fn, inputs)
    no_overlaps(program)
    assert any("2 x" in s.name or ", " in s.name for s in launches(program))
    found, exact = Simulated(module, program)(*inputs), fn(*(x.double() for x in inputs))
    for mine, right in zip(found, exact, strict=True):
        assert (mine.double() - right).norm() <= 1e-5 * right.norm()


def test_what_the_assembler_says() -> None:
    """A joined kernel uses the registers of the part that needs most, nothing spills, and selecting buffers uses none."""
    module, _ = tiled(adamw, [torch.rand(s) for _ in range(4) for s in SIZES])
    (used,) = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module).resources
    assert used.registers <= 40 and used.spill_stores == used.spill_loads == used.stack == 0


ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "sums": lambda x: x.sum(-1),
    "running sums": lambda x: x.cumsum(-1),
    "running sums of a constant": lambda x: torch.ones_like(x).cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "positions of the largest": lambda x: x.argmax(-1),
    "variances": lambda x: x.var(-1),
    "transposed": lambda x: x.mT.contiguous(),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("columns", [40, 300, 600])
def test_rows_beside_a_kernel_with_larger_ctas(name: str, columns: int) -> None:
    """Programs whose threads exchange values have a CTA of their own, or each fits into warps of its own."""

    def both(x: Tensor, y: Tensor) -> list[Tensor]:
        return [ROWS[name](x), y * 2 + 1]

    inputs = [torch.randn(4, columns), torch.randn(2400)]
    module, program = distributed(both, inputs)
    for mine, right in zip(Simulated(module, program)(*inputs), both(*(t.double() for t in inputs)), strict=True):
        torch.testing.assert_close(mine.double(), right.double(), rtol=1e-5, atol=1e-5)

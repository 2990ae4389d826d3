"""Tests values that kernels store at indices: on CPUs, and on GPUs in the simulator and by Triton's interpreter."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed, tiled
from torch import Tensor
from watched import loaded_programs

from lamina.core.program import Launch
from lamina.runtime.spec import spec_of
from lamina.targets.triton.text import print_kernel

aten = torch.ops.aten
Case = tuple[Callable[..., Tensor], Callable[[], tuple[Tensor, ...]]]

CASES: dict[str, Case] = {
    "rows": (
        lambda c, at, v: aten.index_put(c, [at], v * 2),
        lambda: (torch.randn(40, 24), torch.tensor([5, 0, 31, -1]), torch.randn(4, 24)),
    ),
    "a cache": (
        lambda c, at, v: aten.index_put(c, [None, None, at], v.transpose(1, 2) + 1),
        lambda: (torch.randn(2, 3, 40, 16), torch.tensor([7, 8]), torch.randn(2, 2, 3, 16)),
    ),
    "elements": (
        lambda c, i, j, v: aten.index_put(c, [i, None, j], v.exp()),
        lambda: (torch.randn(6, 5, 7), torch.tensor([[1], [4]]), torch.tensor([3, 0, 2]), torch.randn(2, 3, 5)),
    ),
    "scatter": (
        lambda c, at, v: c.scatter(1, at, v),
        lambda: (torch.randn(6, 40), torch.stack([torch.randperm(40)[:9] for _ in range(5)]), torch.randn(5, 9)),
    ),
    "a number": (
        lambda c, at: c.scatter(0, at, 2.5),
        lambda: (torch.randn(40, 6), torch.stack([torch.randperm(40)[:6] for _ in range(9)])),
    ),
    "added": (
        lambda c, at, v: aten.index_put(c, [at], v * 2, True),
        lambda: (torch.randn(9, 24), torch.randint(-9, 9, (40,)), torch.randn(40, 24)),
    ),
    "added to elements": (
        lambda c, at, v: c.scatter_add(0, at, v),
        lambda: (torch.randn(50), torch.randint(0, 50, (300,)), torch.randn(300)),
    ),
    "added in other columns": (
        lambda c, at, v: c.index_add(1, at, v),
        lambda: (torch.randn(7, 50), torch.randint(0, 50, (129,)), torch.randn(7, 129)),
    ),
    "messages": (
        lambda x, a, b, w: torch.zeros_like(x).index_add(0, b, x[a] * w[:, None]).relu(),
        lambda: (torch.randn(20, 17), torch.randint(0, 20, (90,)), torch.randint(0, 20, (90,)), torch.randn(90)),
    ),
    "a mean": (
        lambda c, at, v: c.scatter_reduce(0, at[:, None].expand_as(v), v, "mean"),
        lambda: (torch.randn(20, 17), torch.randint(0, 20, (90,)), torch.randn(90, 17)),
    ),
    "sums of rows beside what is computed of them": (
        lambda c, at, v: c.index_add(0, at, v * 0.5),
        lambda: (torch.randn(30, 8), torch.randint(0, 30, (90,)), torch.randn(90, 8)),
    ),
    "a mean of integers": (
        lambda c, at, v: c.scatter_reduce(0, at[:, None].expand_as(v), v, "mean"),
        lambda: (torch.randint(-9, 9, (20, 17)), torch.randint(0, 20, (90,)), torch.randint(-99, 99, (90, 17))),
    ),
    "rows of a softmax": (
        lambda c, at, v: aten.index_put(c, [at], v.softmax(-1)),
        lambda: (torch.randn(9, 300), torch.tensor([5, 0, 8]), torch.randn(3, 300)),
    ),
}


EXCHANGED: dict[str, Case] = {
    "unsigned bytes": (
        lambda c, at, v: c.scatter_reduce(0, at[:, None].expand_as(v), v, "amax"),
        lambda: (torch.randint(0, 9, (20, 17)).byte(), torch.randint(0, 20, (90,)), torch.randint(0, 256, (90, 17)).byte()),
    ),
    "bags of maxima": (
        lambda i, w, starts: F.embedding_bag(i, w, starts, mode="max"),
        lambda: (torch.randint(0, 9, (33,)), torch.randn(9, 24), torch.tensor([0, 5, 5, 9])),
    ),
}
"""Cases that GPUs compute by comparing and swapping, which the simulator does not know."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_a_gpu_stores_values_where_indices_say(name: str, dtype: torch.dtype) -> None:
    fn, make = CASES[name]
    given = [t.to(dtype) if t.is_floating_point() else t for t in make()]
    program = Simulated(*distributed(fn, given))
    assert not [step for step in program.program.steps if hasattr(step, "callee")]
    (found,) = program(*given)
    want = fn(*(t.double() if t.is_floating_point() else t for t in given)).to(found.dtype)
    torch.testing.assert_close(found, want, rtol=1e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_triton_has_a_form_for_them(name: str) -> None:
    fn, make = CASES[name]
    module, _ = tiled(fn, list(make()), last="lamina-route-to-triton")
    for op in module.body.operations:
        compile(print_kernel(op.operation, descriptors=False).kernel, "kernel", "exec")


@pytest.mark.parametrize("name", EXCHANGED)
def test_a_gpu_exchanges_in_kernels(name: str) -> None:
    fn, make = EXCHANGED[name]
    _, program = distributed(fn, make())
    assert not [step for step in program.steps if hasattr(step, "callee")]


@pytest.mark.parametrize("name", [*CASES, *EXCHANGED])
def test_a_cpu_stores_values_where_indices_say(name: str) -> None:
    fn, make = (CASES | EXCHANGED)[name]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", options={"cache": False, "strict": True})
    for _ in range(2):
        given = make()
        torch.testing.assert_close(compiled(*given), fn(*given))


def test_an_index_out_of_range_is_an_error_and_stores_nothing() -> None:
    def put(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
        c[at] = v
        return c.sum()

    torch._dynamo.reset()
    compiled = torch.compile(put, backend="lamina", options={"cache": False})
    memory = torch.zeros(14, 5)
    compiled(memory[2:12], torch.tensor([-10, 9]), torch.ones(2, 5))
    assert memory[2].eq(1).all() and memory[11].eq(1).all()
    for at in (10, -11, 2**40):
        memory.zero_()
        with pytest.raises(IndexError, match="out of range"):
            compiled(memory[2:12], torch.tensor([0, at]), torch.ones(2, 5))
        assert memory[:2].eq(0).all() and memory[3:].eq(0).all()


def test_an_argument_that_a_kernel_writes_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the argument, made because it is not aligned or because a recording stages it, must not be written instead of
    it."""
    programs = loaded_programs(monkeypatch)
    torch._dynamo.reset()

    def update(cache: Tensor, new: Tensor, at: Tensor) -> Tensor:
        return cache.index_copy_(1, at, new.exp()).amax(1)

    for target in ("cpu", "null:nvvm:sm_90a"):
        run = torch.compile(update, backend="lamina", dynamic=False, options={"cache": False, "target": target})
        with torch.no_grad():
            run(torch.randn(2, 24, 8), torch.randn(2, 1, 8), torch.tensor([3]))
        torch._dynamo.reset()
    assert len(programs) == 2
    for program in programs:
        (number,) = (n for n, given in enumerate(program.inputs) if given.shape == (2, 24, 8))
        assert all(isinstance(step, Launch) for step in program.steps)
        assert spec_of(program, {launch.kernel: 1 for launch in program.steps}, ())["inputs"][number][-1]


def test_deterministic_programs_have_entries_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    counts = []
    for deterministic in (False, True, False):
        torch._dynamo.reset()
        torch.use_deterministic_algorithms(deterministic)
        try:
            run = torch.compile(lambda x, at, v: aten.index_put(x, [at], v), backend="lamina")
            run(torch.randn(40, 8), torch.tensor([3, 5]), torch.randn(2, 8))
        finally:
            torch.use_deterministic_algorithms(False)
        counts.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert counts[0] < counts[1] == counts[2]

"""Tests arguments that get new values as a whole: the kernel that computes a new value writes it over the old one, if nothing reads
that later."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from watched import compiled_programs

import lamina
from lamina.core.program import Launch, Program

Update = Callable[[Tensor, Tensor, Tensor], Any]


def _adam(p: Tensor, m: Tensor, g: Tensor) -> None:
    m.mul_(0.9).add_(g, alpha=0.1)
    p.sub_(m / (g.abs().sqrt() + 1e-3), alpha=0.5)


def _turned(p: Tensor, m: Tensor, g: Tensor) -> None:
    """Each new value is computed from both old ones."""
    x, y = p * 0.6 - m * 0.8, p * 0.8 + m * 0.6
    p.copy_(x)
    m.copy_(y + g)


def _old_value_beside(p: Tensor, m: Tensor, g: Tensor) -> Tensor:
    before = p * 3
    p.add_(g)
    m.lerp_(p, 0.25)
    return before


def _by_condition(p: Tensor, m: Tensor, g: Tensor) -> None:
    keep = torch.arange(p.shape[-1]) % 3 > 0
    x = torch.where(keep, p, m)
    m.copy_(torch.where(keep, m - p, p) + g)
    p.copy_(x)


def _clipped(p: Tensor, m: Tensor, g: Tensor) -> None:
    g = g * (1 / (g.norm() + 1e-6)).clamp(max=1.0)
    m.mul_(0.9).addcmul_(g, g, value=0.1)
    p.sub_(g / (m.abs().sqrt() + 1e-3))


def _with_norms(p: Tensor, m: Tensor, g: Tensor) -> None:
    """Sums are computed beside new values, from old and new ones."""
    m.mul_(0.9).add_(g, alpha=0.1)
    step = m / (g.abs().sqrt() + 1e-3)
    p.sub_(step * (p.norm() / step.norm()))


def _normalized(p: Tensor, m: Tensor, g: Tensor) -> None:
    m.add_(p.softmax(-1))
    p.copy_(torch.softmax(p * 2, -1) + g)


def _read_after(p: Tensor, m: Tensor, g: Tensor) -> Tensor:
    p.add_(g)
    m.sub_(p)
    return (p @ m.mT).sin()


def _old_value_later(p: Tensor, m: Tensor, g: Tensor) -> Tensor:
    before = p.clone()
    p.add_(g)
    m.mul_(2)
    return torch.softmax(before @ p.mT, -1)


def _exchanged(p: Tensor, m: Tensor, g: Tensor) -> None:
    old = p.clone()
    p.copy_(m)
    m.copy_(old + g)


def _of_neighbors(p: Tensor, m: Tensor, g: Tensor) -> None:
    p.add_(p.roll(1, -1))
    m.add_(m.flip(0) + g)


def _given_back(p: Tensor, m: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    m.add_(g.cos())
    return p.addcdiv_(g, m.abs() + 1), m


def _view_given_back(p: Tensor, m: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    p.add_(g)
    m.add_(p)
    return p, m[1:]


def _also_returned(p: Tensor, m: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    new = p + g
    p.copy_(new)
    m.copy_(new)
    return new, new.mT


IN_PLACE: dict[str, Update] = {
    "Adam": _adam,
    "turned": _turned,
    "clipped": _clipped,
    "with norms": _with_norms,
    "normalized": _normalized,
    "an old value is read beside": _old_value_beside,
    "read after": _read_after,
    "given back": _given_back,
}
OTHERS: dict[str, Update] = {
    "by a condition": _by_condition,
    "an old value is read later": _old_value_later,
    "exchanged": _exchanged,
    "of neighbors": _of_neighbors,
    "a view is given back": _view_given_back,
    "also returned": _also_returned,
}


def made(kind: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns a tensor in some layout."""
    rows, columns = shape
    if kind == "transposed":
        return torch.randn(columns, rows).to(dtype).mT
    if kind == "in larger memory":
        return torch.randn(rows + 2, columns + 5).to(dtype)[1:-1, 2:-3]
    if kind == "unaligned":
        return torch.randn(rows * columns + 1).to(dtype)[1:].view(rows, columns)
    return torch.randn(rows, columns).to(dtype)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns the programs that are compiled."""
    monkeypatch.setenv("LAMINA_CACHE", "0")
    return compiled_programs(monkeypatch)


def written_over(program: Program) -> Iterator[int]:
    """Yields the arguments that launches of a program write over."""
    for step in program.steps:
        for i, o in step.inplace if isinstance(step, Launch) else ():
            over, written = (program.buffers[step.args[n].buffer] for n in (i, o))
            if over is written and over.kind == "input":
                yield over.index


def compiled(entry_point: str, fn: Update, given: Sequence[Tensor]) -> Update:
    torch._dynamo.reset()
    options = {"cache": False}
    if entry_point == "lamina.compile":
        return lamina.compile(lambda *args: fn(*args), tuple(t.clone() for t in given), options=options)  # type: ignore[no-any-return]
    return torch.compile(lambda *args: fn(*args), backend="lamina", dynamic=entry_point == "dynamic", options=options)


def check(run: Update, fn: Update, given: Sequence[Tensor], tolerance: float) -> None:
    """Compares new values and results with those in float64, and memory and versions with eager's."""
    exact = [t.to(torch.float64, copy=True) for t in given]
    want, versions, places = fn(*exact), [t._version for t in given[:2]], [t.data_ptr() for t in given]
    found = run(*given)
    assert [t.data_ptr() for t in given] == places and all(t._version > v for t, v in zip(given[:2], versions, strict=True))
    for mine, theirs in zip([*given, *leaves(found)], [*exact, *leaves(want)], strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=tolerance, atol=tolerance)
    for t in (*given[:2], *exact[:2]):
        t.zero_()  # what is returned shows this where it does in eager
    for mine, theirs in zip(leaves(found), leaves(want), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=tolerance, atol=tolerance)


def leaves(results: Any) -> list[Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(results) if t is not None]


@pytest.mark.parametrize("entry_point", ["torch.compile", "dynamic", "lamina.compile"])
@pytest.mark.parametrize("name", [*IN_PLACE, *OTHERS])
def test_arguments_have_their_new_values(name: str, entry_point: str, programs: list[Program]) -> None:
    fn = (IN_PLACE | OTHERS)[name]
    run = compiled(entry_point, fn, [made("", (13, 37), torch.float32) for _ in range(3)])
    for _ in range(3):
        check(run, fn, [made("", (13, 37), torch.float32) for _ in range(3)], 1e-4)
    if name in OTHERS or (name, entry_point) == ("given back", "lamina.compile"):
        return
    assert len({argument for program in programs for argument in written_over(program)}) == 2


@pytest.mark.parametrize("kind", ["transposed", "in larger memory", "unaligned"])
@pytest.mark.parametrize("name", ["Adam", "turned", "of neighbors"])
def test_memory_of_any_kind(name: str, kind: str) -> None:
    fn = (IN_PLACE | OTHERS)[name]
    run = compiled("torch.compile", fn, ())
    for _ in range(2):
        check(run, fn, [made(kind, (13, 37), torch.float32), made(kind, (13, 37), torch.float32), torch.randn(13, 37)], 1e-4)
        check(run, fn, [made("", (13, 37), torch.float32), made(kind, (13, 37), torch.float32), torch.randn(13, 37)], 1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["Adam", "turned", "an old value is read beside"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    fn = IN_PLACE[name]
    run = compiled("torch.compile", fn, ())
    for shape in ((16, 64), (5, 7), (1, 1), (3, 0)):
        check(run, fn, [made("", shape, dtype) for _ in range(3)], 1e-9 if dtype is torch.float64 else 0.1)


@pytest.mark.parametrize("name", ["Adam", "with norms"])
def test_large_arguments(name: str) -> None:
    """Sums are in parts, and results that overwrite nothing bypass the caches."""
    fn = IN_PLACE[name]
    run = compiled("torch.compile", fn, ())
    check(run, fn, [made("", (2048, 1024), torch.float32) for _ in range(3)], 1e-3)


def test_arguments_that_share_memory() -> None:
    run = compiled("torch.compile", _turned, ())
    for overlap in (0, 3, 8):
        memory = torch.randn(24, 5)
        exact, g = memory.double(), torch.randn(8, 5)
        run(memory[:8], memory[8 - overlap : 16 - overlap], g)
        _turned(exact[:8], exact[8 - overlap : 16 - overlap], g.double())
        torch.testing.assert_close(memory.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.complex64], ids=str)
def test_other_numbers(dtype: torch.dtype) -> None:
    def fn(a: Tensor, b: Tensor) -> None:
        if dtype is torch.bool:
            a ^= b
        else:
            a.mul_(b).add_(3)

    run, real = torch.compile(fn, backend="lamina"), torch.randint(0, 9, (7, 11))
    a, b = real.to(dtype), real.flip(0).to(dtype)
    for _ in range(2):
        own = a.clone()
        fn(own, b)
        run(a, b)
        torch.testing.assert_close(a, own)


def test_a_check_that_fails_later() -> None:
    """What eager has written before an error is written, and memory is left usable."""

    def fn(p: Tensor, table: Tensor, at: Tensor) -> Tensor:
        p.add_(1)
        return table[at] * p

    run, p, table = torch.compile(fn, backend="lamina"), torch.randn(4), torch.randn(9)
    torch.testing.assert_close(run(p, table, torch.tensor([1, 2, 3, 8])), table[[1, 2, 3, 8]] * p)
    with pytest.raises(IndexError):
        run(p, table, torch.tensor([1, 2, 30, 8]))
    torch.testing.assert_close(run(p, table, torch.tensor([1, 2, 3, 8])), table[[1, 2, 3, 8]] * p)

"""Tests arguments that are partly written: a kernel or a library routine writes into the argument itself if its old value is not
read elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from watched import compiled_programs, steps_of

import lamina
from lamina.core.program import Call, Program

Update = Callable[[Tensor, Tensor, Tensor], Any]


def _wide(at: Tensor, c: Tensor) -> Tensor:
    return at.view(1, -1, 1).expand(c.shape[0], -1, c.shape[2])


def _set(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c[:, at] = v
    return c.sum(-1)


def _twice(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c.index_copy_(1, at, v)
    c.scatter_(1, _wide(at + 1, c), v * 2)
    return c * 2


def _part_later(c: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    c.index_copy_(1, at, v)
    return c[:, 1:] + 1, c.mT.relu()


def _old_value(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    before = c * 3
    c.index_copy_(1, at, v)
    return before + c


def _old_part(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    before = c[:, :1]
    c.index_copy_(1, at, v + before)
    return c.amax(1)


def _of_itself(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c.index_copy_(1, at, c[:, at + 1])
    return c + 1


def _returned(c: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    c.index_copy_(1, at, v)
    return c, c.clone()


def _given_back(c: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    c.index_copy_(1, at, v)
    return c, c[:, 1:], c.sum(-1)


def _both(c: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    new = c.index_copy(1, at, v)
    c.copy_(new)
    return new.mT, new


def _slice(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c[:, 5:8] = v
    return c[:, :8].sum(-1)


def _slices(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c[:2, -9:-6, ..., 1:] = v[1:, :, 1:]
    c[1, 3:6] = v[0, 1]
    c[..., 2] = 0.5
    return c * 2


def _slice_of_itself(c: Tensor, at: Tensor, v: Tensor) -> Tensor:
    c[:, 5:8] = c[:, 6:9] + v
    c[1:, :] = 1
    return c + 1


def _slice_read_before(c: Tensor, at: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    part, before = c[:, 4:6], c.sum(0)
    c[:, 5:8] = v.double()
    part[0] = 2
    return before + c, part * 2


IN_PLACE: dict[str, Update] = {
    "a slice": _slice,
    "slices": _slices,
    "nothing else": lambda c, at, v: (c.index_copy_(1, at, v + 1), v.sum())[1],
    "index_copy_": lambda c, at, v: c.index_copy_(1, at, v).sum(),
    "set": _set,
    "index_add_": lambda c, at, v: c.index_add_(1, at, v, alpha=0.5).sum(),
    "added to one place twice": lambda c, at, v: c.index_put_((torch.zeros_like(at),), v[:, :1], accumulate=True).sum(),
    "scatter_": lambda c, at, v: c.scatter_(1, _wide(at, c), v).sum(),
    "scatter_ a number": lambda c, at, v: c.scatter_(1, _wide(at, c), 2.5).sum(),
    "scatter_add_": lambda c, at, v: c.scatter_add_(1, _wide(at, c), v).sum(),
    "scatter_reduce_": lambda c, at, v: c.scatter_reduce_(1, _wide(at, c), v, "amax").sum(),
    "masked_scatter_": lambda c, at, v: c.masked_scatter_(c.new_ones(c.shape[1], 1).bool(), v.repeat(1, 40, 1)).sum(),
    "two in a row": _twice,
    "read later": _part_later,
}
COPIED: dict[str, Update] = {
    "a slice of itself": _slice_of_itself,
    "a slice, read before": _slice_read_before,
    "given back": _given_back,
    "returned": _returned,
    "another tensor is returned, too": _both,
    "the old value is read": _old_value,
    "a part of it is": _old_part,
    "for the new one": _of_itself,
}


def cache(kind: str) -> Tensor:
    """Returns a tensor (3, 40, 8) in some layout."""
    if kind == "transposed":
        return torch.randn(40, 3, 8).transpose(0, 1)
    if kind == "in larger memory":
        return torch.randn(4, 45, 9)[1:, 5:, 1:]
    if kind == "of negative bits":
        return torch.randn(3, 40, 8, dtype=torch.complex64).conj().imag
    return torch.randn(3, 40, 8)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns the programs that are compiled."""
    monkeypatch.setenv("LAMINA_CACHE", "0")
    return compiled_programs(monkeypatch)


def compiled(entry_point: str, fn: Update, given: tuple[Tensor, ...]) -> Update:
    torch._dynamo.reset()
    options = {"cache": False}
    if entry_point == "lamina.compile":
        return lamina.compile(lambda *args: fn(*args), tuple(t.clone() for t in given), options=options)  # type: ignore[no-any-return]
    return torch.compile(lambda *args: fn(*args), backend="lamina", dynamic=entry_point == "dynamic", options=options)


@pytest.mark.parametrize("entry_point", ["torch.compile", "dynamic", "lamina.compile"])
@pytest.mark.parametrize("name", [*IN_PLACE, *COPIED])
def test_the_argument_has_its_new_value(name: str, entry_point: str, programs: list[Program]) -> None:
    fn, at = (IN_PLACE | COPIED)[name], torch.tensor([5, 0, 31])
    run = compiled(entry_point, fn, (cache(""), at, torch.randn(3, 3, 8)))
    for _ in range(3):
        c, v = cache(""), torch.randn(3, 3, 8)
        own, version, place = c.clone(), c._version, c.data_ptr()
        want, found = fn(own, at, v), run(c, at, v)
        for mine, theirs in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(want), strict=True):
            torch.testing.assert_close(mine, theirs)
        assert torch.equal(c, own) and c._version > version and c.data_ptr() == place
        c.zero_()  # what is returned beside it shows this where it does in eager
        own.zero_()
        for mine, theirs in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(want), strict=True):
            torch.testing.assert_close(mine, theirs)
    steps = [step.callee if isinstance(step, Call) else step.name for step in steps_of(programs)]
    called = [step for step in steps if step.startswith("aten.")]
    if name == "given back":  # by AOTAutograd, as argument
        assert entry_point == "lamina.compile" or steps[0] == "index_copy"
    elif name in IN_PLACE:
        assert not called and "copy" not in steps
    elif name != "returned":
        assert not any(c.split(".")[1].endswith("_") for c in called)


@pytest.mark.parametrize("kind", ["transposed", "in larger memory", "of negative bits"])
def test_memory_of_any_kind(kind: str) -> None:
    fn, at = _part_later, torch.tensor([5, 0, 31])
    run = compiled("torch.compile", fn, (cache(kind), at, torch.randn(3, 3, 8)))
    for _ in range(3):
        c, v = cache(kind), torch.randn(3, 3, 8)
        own = c.clone()
        for mine, theirs in zip(run(c, at, v), fn(own, at, v), strict=True):
            torch.testing.assert_close(mine, theirs)
        assert torch.equal(c, own)


def test_gradients_of_what_was_saved_before() -> None:
    """A value that backward needs is kept when the argument is written again."""

    def fn(c: Tensor, w: Tensor, at: Tensor, v: Tensor) -> Tensor:
        c.index_copy_(1, at, v)
        return (c * w).sin().sum()

    torch._dynamo.reset()
    run, at = torch.compile(fn, backend="lamina"), torch.tensor([1])
    c, w = cache(""), torch.randn(8, requires_grad=True)
    own, weight = c.clone(), w.detach().clone().requires_grad_()
    first, second = torch.randn(3, 1, 8), torch.randn(3, 1, 8)
    total = run(c, w, at, first)
    with torch.no_grad():
        run(c, w, at, second)
    total.backward()
    own.index_copy_(1, at, first)
    (own * weight).sin().sum().backward()
    torch.testing.assert_close(w.grad, weight.grad)


@pytest.mark.parametrize("at_an_item", [False, True])
def test_slices_that_move(at_an_item: bool) -> None:
    """A position that changes from call to call, as a number or as the value of a tensor, which torch may not guard on."""

    def write(c: Tensor, v: Tensor, at: Any) -> Tensor:
        if at_an_item:
            at = at.item()
            torch._check(at >= 0)
            torch._check(at + v.shape[1] <= 40)
        c[: v.shape[0], at : at + v.shape[1]] = v
        return c.sum(-1)

    run = torch.compile(write, backend="lamina", dynamic=True, options={"cache": False}, fullgraph=True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for rows, columns, first in ((2, 3, 5), (2, 3, 6), (3, 2, 9), (2, 4, 36)):
            at = torch.tensor(first) if at_an_item else first
            c, v = cache(""), torch.randn(rows, columns, 8)
            own = c.clone()
            torch.testing.assert_close(run(c, v, at), write(own, v, at))
            assert torch.equal(c, own)


def _pasted(x: Tensor, v: Tensor) -> Tensor:
    y = x * 2
    y[1:3, 5:8] = v[:2]
    y[:, 7, 2:6] += 1
    y[2, 1:-1, 3] = v.sum()
    return y


@pytest.mark.parametrize("entry_point", ["torch.compile", "dynamic", "lamina.compile"])
def test_parts_of_parts_are_not_laid_out_as_the_whole(entry_point: str, programs: list[Program]) -> None:
    """Eager's views of the whole have gaps; copies of these would take as much memory as the whole."""
    x, v = torch.randn(3, 40, 8), torch.randn(3, 3, 8)
    torch.testing.assert_close(compiled(entry_point, _pasted, (x, v))(x, v), _pasted(x, v))
    assert not any("copy" in step.name for step in steps_of(programs) if not isinstance(step, Call))

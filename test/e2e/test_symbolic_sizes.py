"""Tests torch.compile(dynamic=True): one compilation serves all sizes, with eager's values and strides."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import same
from sized_graphs import GRAPHS, compilations, dynamic, leaves, observed, sweep, x
from sized_images import IMAGES
from torch import Tensor

from lamina.core.program import Program
from lamina.frontend.compiling.sized import BOUND, SizedProgram

F = torch.nn.functional
__all__ = ["compilations"]


WITHOUT_CALLS = """write_every_third train_slice_step divided_by_sizes train_group_norm train_adaptive_maxima train_windows_of_rows
    train_windows_of_images""".split()
"""Graphs that symbolic sizes add no external calls to."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [*GRAPHS, *IMAGES])
def test_one_compilation_serves_all_sizes(name: str, compilations: list[Program]) -> None:
    graph = (GRAPHS | IMAGES)[name]
    sweep(graph, dynamic(graph.function, strict=name in WITHOUT_CALLS))
    assert len(compilations) == graph.programs


@pytest.mark.parametrize("graph", ["softmax", "linear", "cat_rows", "view_heads", "train_mlp"])
def test_sizes_of_0_and_1_compile_apart(graph: str, compilations: list[Program]) -> None:
    """Dynamo specializes 0 and 1; the program for all other sizes stays."""
    case = GRAPHS[graph]
    compiled = dynamic(case.function)
    for sizes in ((6, 11), (1, 11), (6, 1), (7, 13)):
        args = case.make(*sizes)
        same(observed(compiled, leaves(args), case.train), observed(case.function, leaves(args), case.train))
    before = len(compilations)
    args = case.make(9, 15)
    same(observed(compiled, leaves(args), case.train), observed(case.function, leaves(args), case.train))
    assert len(compilations) == before
    args = case.make(0, 11)
    same(observed(compiled, leaves(args), False), observed(case.function, leaves(args), False))


def test_sizes_may_become_0(compilations: list[Program]) -> None:
    """A size that depends on two symbols has no known lower bound."""
    compiled = dynamic(lambda a, b: a[:, b.shape[0] :].sum(1))
    for b, n in ((4, 7), (8, 13), (5, 5), (6, 9)):
        args = (x(b, n), x(b))
        same(compiled(*args), args[0][:, b:].sum(1))


def test_the_sign_of_an_index_is_guarded(compilations: list[Program]) -> None:
    def after(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a[:, b.shape[0] - 6 :].sum(1), a[:, b.shape[0] - 6] * 2

    compiled = dynamic(after)
    for b in (9, 5, 12, 3, 2, 6, 30):
        args = (x(7, 50), x(b))
        same(compiled(*args), after(*args))


INTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "arange": lambda a, n: torch.arange(n) * 2.0 + a.sum(),
    "expand": lambda a, n: a[:1].expand(n, a.shape[1]) * 2,
    "narrow": lambda a, n: a[:n].sum(0),
    "mean": lambda a, n: a[:n].softmax(0).mean(0),
    "cat": lambda a, n: torch.cat([a, a.new_zeros(n, a.shape[1])]).cumsum(0),
    "columns": lambda a, n: a[:, :n].exp().t().contiguous(),
    "pad": lambda a, n: F.pad(a, (0, n)) + 1,
    "topk": lambda a, n: a.topk(n, 0).values * 2,
    "view": lambda a, n: a.reshape(-1)[: n * 3].view(n, 3).amax(1),
    "product": lambda a, n: a.t() @ a[:, :n],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", INTS.values(), ids=INTS.keys())
def test_an_int_that_becomes_a_size_may_be_0_or_1(function: Callable[..., Tensor], compilations: list[Program]) -> None:
    compiled = dynamic(function)
    for rows, n in ((12, 4), (9, 7), (12, 0), (31, 1), (9, 2), (17, 9)):
        a = x(rows, rows)
        same(compiled(a, n), function(a, n))
    assert len(compilations) <= 3  # Dynamo itself compiles most of them apart for 0 and 1


SIGNED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "factor": lambda a, n: a * n + n,
    "shift": lambda a, n: a.roll(n, 0),
    "diagonal": lambda a, n: a + torch.ones_like(a).triu(n),
    "size": lambda a, n: a[:1].expand(n + 3, a.shape[1]) * 2,
    "the last ones": lambda a, n: F.linear(a[:, -n:].reshape(a.shape[0], -1), a[:, -n:]) * 2,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", SIGNED.values(), ids=SIGNED.keys())
def test_an_int_that_might_be_negative_needs_no_compilation_of_its_own(
    function: Callable[..., Tensor], compilations: list[Program]
) -> None:
    """There must be no guard on its sign; `model(x, logits_to_keep=0)` has such an int."""
    compiled = dynamic(function)
    for rows, n in ((12, 5), (9, 7), (12, 0), (31, 3)):
        a = x(rows, rows)
        same(compiled(a, n), function(a, n))
    assert len(compilations) <= 2  # and Dynamo itself some for 0


@pytest.mark.filterwarnings("error")
def test_an_int_divides_a_size_that_is_rounded_to_its_multiple(compilations: list[Program]) -> None:
    def blocks(a: Tensor, n: int) -> tuple[Tensor, Tensor]:
        whole = a[: a.shape[0] - a.shape[0] % n].view(-1, n, a.shape[1])
        return whole.sum(1), F.pad(a, (0, 0, 0, -a.shape[0] % n)).view(-1, n, a.shape[1]).sum(1)

    compiled = dynamic(blocks)
    for rows, n in ((12, 4), (15, 3), (31, 5), (17, 7)):
        a = x(rows, 11)
        same(compiled(a, n), blocks(a, n))
    assert len(compilations) <= 2  # torch asks whether there is a rest


def test_plans_of_sizes_are_bounded(compilations: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond BOUND sizes the least recently used plan is dropped, and computed again when needed."""
    made: list[tuple[SizedProgram, tuple[int, ...]]] = []
    bind = SizedProgram.bind

    def spy(self: SizedProgram, sizes: tuple[int, ...]) -> Callable[..., Any]:
        made.append((self, sizes))
        return bind(self, sizes)

    monkeypatch.setattr(SizedProgram, "bind", spy)
    compiled = dynamic(lambda a: a.sin() + 1)
    for n in (*range(2, BOUND + 22), BOUND + 21, 2):
        a = x(n)
        same(compiled(a), a.sin() + 1)
    assert [sizes for _, sizes in made] == [(n,) for n in (*range(2, BOUND + 22), 2)]
    assert len(made[0][0].programs()) == BOUND and len(compilations) == 1


def test_a_graph_compiled_per_size_says_why(compilations: list[Program]) -> None:
    """The order in which three factors are rounded is not known."""

    def cut(a: Tensor) -> Tensor:
        return a[:, : int(a.shape[1] * 0.3 * a.shape[0] / a.shape[0])].softmax(1)

    compiled = dynamic(cut)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for b, n in ((6, 11), (3, 13), (7, 5), (6, 11)):
            a = x(b, n)
            same(compiled(a), cut(a))
    (text,) = [str(w.message) for w in told if "once per size" in str(w.message)]
    assert re.search(r"a size is made of 0.3\*ToFloat\(s\d+\)\*ToFloat\(s\d+\), which does not tell in which order", text)
    assert "torch.compile(dynamic=False)" in text and len(compilations) == 3


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch breaks the graph at a tensor made of a size")
def test_a_quotient_of_two_sizes_is_a_tensor(compilations: list[Program]) -> None:
    compiled = dynamic(lambda a: a * torch.div(a.shape[1], 2, rounding_mode="trunc"))
    for b, n in ((6, 11), (3, 130)):
        a = x(b, n)
        same(compiled(a), a * (n // 2))
    assert len(compilations) == 1


def _written(a: Tensor) -> Tensor:
    b = a.clone()
    b[:, 0] = 1 / a.shape[1]
    return b


NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "full": lambda a: (a.new_full((3, a.shape[0]), a.shape[1] / 3), torch.full_like(a, a.shape[0] ** 0.5), a.clone().fill_(a.shape[1] / 7)),
    "tensor": lambda a: a * torch.tensor(a.shape[1] / 2) + torch.scalar_tensor(a.shape[0] / 3),
    "masks": lambda a: (a.masked_fill(a > 0, a.shape[1] / 7), torch.where(a > 0, a.shape[1] / 3, a), a.masked_fill(a > 0, a.shape[1])),
    "bounds": lambda a: (a.clamp(-1 / a.shape[0], a.shape[1] / 90), F.hardtanh(a, -1 / a.shape[1], 1 / a.shape[0])),
    "alpha": lambda a: (torch.add(a, a.sin(), alpha=1 / a.shape[1]), torch.sub(a, a.sin(), alpha=a.shape[1])),
    "products": lambda a: torch.addmm(a @ a.mT, a, a.mT, beta=1 / a.shape[1], alpha=a.shape[0] ** -0.5),
    "batched products": lambda a: torch.baddbmm((a @ a.mT)[None], a[None], a.mT[None], beta=a.shape[1] / 3),
    "indices": lambda a: (a.index_fill(1, torch.tensor([0, 2]), 1 / a.shape[1]), a.scatter(1, torch.zeros(a.shape[0], 1).long(), a.shape[1] / 3)),
    "assignment": _written,
    "remainders": lambda a: (a // (a.shape[1] / 3), a % (a.shape[1] / 3), (1 / a.shape[1]) ** a),
    "quantile": lambda a: torch.quantile(a, 0.3, dim=1),
}  # fmt: skip


UNTRACED = pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 cannot trace quantiles of symbolic sizes")


@pytest.mark.parametrize("name", [pytest.param(name, marks=UNTRACED if name == "quantile" else ()) for name in NUMBERS])
def test_numbers_made_of_sizes(name: str, compilations: list[Program]) -> None:
    """A float computed from sizes can be an op's argument like any other number."""
    compiled = dynamic(NUMBERS[name])
    for b, n in ((4, 6), (5, 9), (7, 11)):
        a = x(b, n)
        same(compiled(a), NUMBERS[name](a))
    assert len(compilations) == 1


def test_numbers_made_of_sizes_saved_for_backward(compilations: list[Program]) -> None:
    def function(a: Tensor) -> Tensor:
        return a.sin() * (a.shape[0] == a.shape[1]) + a.cos() * (a.shape[0] / 3)

    compiled = dynamic(function)
    for b, n in ((4, 6), (5, 9), (7, 7)):
        a = x(b, n).requires_grad_()
        same(*[torch.autograd.grad(call(a).sin().sum(), a) for call in (compiled, function)])
    assert len(compilations) == 2  # forward and backward


def test_pads_of_pads_by_sizes(compilations: list[Program]) -> None:
    """Upstream folds two pads to one, by a sum of sizes."""

    def function(a: Tensor) -> Tensor:
        return F.pad(a[None], (1, 2), mode="circular").sin()

    compiled = dynamic(function)
    for b, n in ((4, 6), (5, 9), (7, 7)):
        a = x(b, n).requires_grad_()
        same(*[torch.autograd.grad(call(a).sum(), a) for call in (compiled, function)])
    assert len(compilations) == 2


def test_rows_cut_or_padded_to_a_length(compilations: list[Program]) -> None:
    """A slice has the smaller of a size and a number as its length, sums have bounded rows, and padding adds what is missing to
    that number."""

    def function(a: Tensor) -> tuple[Tensor, ...]:
        cut = a[:, : min(a.shape[1], 12)]
        whole = F.pad(a[:, : min(a.shape[1], 40)], (0, max(0, 40 - a.shape[1])))
        return cut.sum(1), cut.softmax(1), whole.view(-1, 10, 4).sum(2)

    compiled = dynamic(function)
    for b, n in ((4, 6), (5, 9), (7, 50), (6, 3), (3, 30)):
        same(compiled(a := x(b, n)), function(a))
    assert len(compilations) <= 3  # torch captures longer rows apart


@pytest.mark.filterwarnings("error")
def test_statistics_of_few_and_of_many_elements(compilations: list[Program]) -> None:
    def function(a: Tensor) -> tuple[Tensor, ...]:
        return F.batch_norm(a, None, None, training=True), F.instance_norm(a), a.var(2), torch.std_mean(a)

    compiled = dynamic(function)
    for b, n in ((4, 6), (5, 90), (2, 9)):
        a = x(b, 3, n)
        same(compiled(a), function(a))
    assert len(compilations) == 1


@pytest.mark.filterwarnings("error")
def test_columns_padded_to_a_length(compilations: list[Program]) -> None:
    """The columns are an axis of known length, of which the call decides how many elements are padding."""

    def function(a: Tensor) -> Tensor:
        return F.pad(a[..., 0].sin(), (0, 32 - a.shape[1])) * 2

    compiled = dynamic(function)
    for b, n in ((4, 6), (5, 29), (7, 9), (3, 20)):
        same(compiled(a := x(b, n, 2)), function(a))
    assert len(compilations) == 1


def test_rows_padded_to_a_multiple_of_a_number(compilations: list[Program]) -> None:
    """torch captures a separate graph for sizes that need no padding: these are multiples of the number."""

    def function(a: Tensor) -> Tensor:
        b, n, c = a.shape
        padded = F.pad(a, (0, 0, 0, (4 - n % 4) % 4))
        return (padded.view(b, -1, 4, c).softmax(2) * padded.shape[1]).view(b, -1, c)[:, :n] * 2

    compiled = dynamic(function)
    for b, n in ((2, 12), (3, 20), (5, 8)):
        a = x(b, n, 6).requires_grad_()
        same(*[torch.autograd.grad(call(a).sin().sum(), a) for call in (compiled, function)])
    assert len(compilations) == 2

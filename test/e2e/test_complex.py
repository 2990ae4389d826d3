"""Tests complex tensors: conj and neg bits of arguments, results and gradients, and results that view an argument in another
dtype."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, Model, memory, same, static_and_dynamic
from torch import Tensor
from torch.nn import functional as F

from lamina import compile as lamina_compile
from lamina import explain

EntryPoint = Callable[..., Model]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def entry_point(request: pytest.FixtureRequest) -> Iterator[EntryPoint]:
    yield request.param


def z(*shape: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def bits(t: Tensor) -> tuple[bool, bool]:
    return t.is_conj(), t.is_neg()


def tensors(values: Any) -> tuple[Tensor, ...]:
    return values if isinstance(values, tuple) else (values,)


def spectral(a: Tensor, w: Tensor) -> Tensor:
    modes = torch.fft.rfft2(a)[:, :, :3, :3]
    return torch.fft.irfft2(torch.einsum("bihw,iohw->bohw", modes, w), s=(7, 9))


COMPUTED: dict[str, tuple[Model, tuple[Tensor, ...]]] = {
    "imaginary part of a product": (lambda a, b: (a * b).imag.sum(), (z(127), z(127))),
    "product": (lambda a, b: a @ b, (z(3, 5), z(5, 4))),
    "product of a conjugate": (lambda a, b: a.mH @ b, (z(5, 3), z(5, 4))),
    "batches": (lambda a, b: torch.einsum("bij,bkj->bik", a, b.conj()), (z(2, 3, 5), z(2, 4, 5))),
    "linear": (F.linear, (z(3, 5), z(4, 5), z(4))),
    "double": (lambda a, b: a.mH @ b, (z(5, 3, dtype=torch.complex128), z(5, 1, dtype=torch.complex128))),
    "rotary": (lambda a, f: torch.view_as_real(torch.view_as_complex(a) * f).flatten(-2), (x(2, 7, 3, 2), z(7, 3))),
    "spectral": (spectral, (x(2, 3, 7, 9), z(3, 4, 3, 3))),
    "convolution by transform": (lambda a, w: torch.fft.ifft(torch.fft.fft(a) * w.conj()).real, (x(3, 9), z(9))),
    "squared": (lambda a: (a * a.conj()).real.sum(-1), (z(3, 127),)),
    "both parts": (lambda a: a.conj().imag * a.real + a.conj().real, (z(1),)),
    "stacked": (lambda a, b: torch.stack([a, b.conj()]), (z(3, 4), z(3, 4))),
    "changed in place": (lambda a, b: a.clone().mul_(b.conj()).imag, (z(3), z(3))),
    "inner": (torch.linalg.vecdot, (z(3, 5), z(3, 5))),
    "conjugate": (lambda a: (a * 2).conj(), (z(3, 4),)),
    "real zeros": (lambda a: torch.zeros_like(a, dtype=torch.float32) + torch.ones_like(a, dtype=torch.float32) * a.real, (z(3, 5),)),
    "in half": (lambda a: a.to(torch.complex32).to(torch.complex64) * 2, (z(3, 5),)),
    "reductions of a number": (lambda a: torch.stack([a.sum(), a.sum(0), a.mean(), a.cumsum(0)]), (z(1)[0],)),
    "empty": (lambda a, b: a.conj() * b, (z(0, 3), z(3))),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "entry_point"), [(name, ENTRY_POINTS[entry_point]) for name, entry_point in static_and_dynamic(COMPUTED)]
)
def test_values_and_gradients(name: str, entry_point: EntryPoint) -> None:
    """The gradients of the results have the conj or neg bit themselves."""
    fn, example = COMPUTED[name]
    example = tuple(t.clone().requires_grad_() for t in example)
    compiled = entry_point(fn, example)
    arguments = tuple(torch.randn_like(t).requires_grad_() for t in example)
    wanted, got = fn(*arguments), compiled(*arguments)
    same(got, wanted)
    assert bits(got) == bits(wanted)
    gradient = torch.randn_like(wanted)
    for way in (gradient, gradient.conj() if gradient.is_complex() else torch._neg_view(gradient)):
        expected = torch.autograd.grad(wanted, arguments, way, retain_graph=True)
        found = torch.autograd.grad(got, arguments, way, retain_graph=True)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "conjugate": lambda t: t.conj(),
    "negative": torch._neg_view,
    "both": lambda t: torch._neg_view(t.conj()),
    "adjoint": lambda t: t.mH,
    "sliced": lambda t: t.conj()[1:],
    "expanded": lambda t: t.conj()[:1].expand(3, 3),
}


@pytest.mark.parametrize("grad", [False, True])
def test_arguments_with_bits(entry_point: EntryPoint, grad: bool) -> None:
    """A model compiled for arguments with the bits is called without them, and the other way round."""

    def fn(a: Tensor, b: Tensor) -> Any:
        return a * 2 + b, a @ b.mH, a.sum()

    example, others = ("plain", LAYOUTS) if not grad else ("adjoint", ("plain", "conjugate", "both", "expanded"))
    with torch.set_grad_enabled(grad):
        compiled = entry_point(fn, (LAYOUTS[example](z(3, 3)), z(3, 3)))
        for other in others:
            a, b = LAYOUTS[other](z(4, 3) if other == "sliced" else z(3, 3)).detach().requires_grad_(grad), z(3, 3).conj()
            wanted, got = fn(a, b), compiled(a, b)
            same(got, wanted)
            if grad:
                parts = [sum(t.abs().sum() for t in values) for values in (wanted, got)]
                torch.testing.assert_close(*[torch.autograd.grad(part, a)[0] for part in parts])


def test_a_real_argument_with_a_neg_bit(entry_point: EntryPoint) -> None:
    with torch.no_grad():
        compiled = entry_point(lambda a: a * 2, (x(5),))
        for a in (x(5), torch._neg_view(x(5)), z(5).conj().imag):
            same(compiled(a), a * 2)


VIEWS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "conj": (lambda a: a.conj(), z(3, 4)),
    "mH": (lambda a: a.mH, z(3, 4)),
    "real": (lambda a: a.real, z(3, 4)),
    "imag": (lambda a: a.imag, z(5, 4)[1:4]),
    "imag of conj": (lambda a: a.conj().imag[1:], z(3, 4)),
    "conj of conj": (lambda a: a.conj(), z(3, 4).conj()),
    "imag of a conjugate": (lambda a: a.imag, z(3, 4).conj()),
    "negative": (torch._neg_view, z(3, 4)),
    "view_as_real": (torch.view_as_real, z(4, 3).t()),
    "view_as_real of a double": (torch.view_as_real, z(4, dtype=torch.complex128)),
    "view_as_complex": (torch.view_as_complex, x(5, 4, 2)[1:]),
    "as int32": (lambda a: a.view(torch.int32), x(3, 4)),
    "as int16, sliced": (lambda a: a.view(torch.int16)[1:, 2:5], x(5, 4)[1:]),
    "as float64": (lambda a: a.view(torch.float64), x(3, 4)),
    "as int8 and back": (lambda a: a.view(torch.int8).view(torch.int32), x(3, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_result_that_views_an_argument(entry_point: EntryPoint, name: str) -> None:
    """Its dtype, strides, offset and bits are eager's, and it shares the argument's memory."""
    view, a = VIEWS[name]
    with torch.no_grad():
        wanted, (got, more) = view(a), entry_point(lambda a: (view(a), a * 2), (a,))(a)
    same((got, more), (wanted, a * 2))
    assert memory(got) == memory(a)
    assert (got.dtype, got.storage_offset(), bits(got)) == (wanted.dtype, wanted.storage_offset(), bits(wanted))
    version = a._version
    got.fill_(1)
    same(view(a), got)
    assert a._version > version


def test_a_view_of_an_argument_that_lies_elsewhere(entry_point: EntryPoint) -> None:
    """The argument's offset differs from the example's."""
    with torch.no_grad():
        compiled = entry_point(lambda a: (a.view(torch.int32), a + 1), (x(6),))
        a = x(20)[7:13]
        got, _ = compiled(a)
        same(got, a.view(torch.int32))
        assert got.storage_offset() == 7 and memory(got) == memory(a)
        wide = entry_point(lambda a: (torch.view_as_complex(a), a + 1), (x(3, 2),))
        with pytest.raises((RuntimeError, ValueError), match="divisible by 2|whole torch.complex64"):
            wide(x(7)[1:].view(3, 2))


@pytest.mark.parametrize("grad", [False, True])
def test_views_of_an_argument_with_other_bits(entry_point: EntryPoint, grad: bool) -> None:
    def fn(a: Tensor) -> Any:
        return a.imag, a.conj(), a.real

    with torch.set_grad_enabled(grad):
        for example in ("plain", "conjugate"):
            compiled = entry_point(fn, (LAYOUTS[example](z(3, 4)),))
            for other in ("plain", "conjugate", "both"):
                a = LAYOUTS[other](z(3, 4)).detach().requires_grad_(grad)
                same(compiled(a), fn(a))


def test_results_that_share_memory(entry_point: EntryPoint) -> None:
    def fn(a: Tensor) -> Any:
        b = a * 2
        return b, b.conj(), b.real, b.conj().imag, torch.view_as_real(b), b.conj() * 1

    a = z(3, 4)
    with torch.no_grad():
        wanted, got = fn(a), entry_point(fn, (a,))(a)
    same(got, wanted)
    assert [bits(t) for t in got] == [bits(t) for t in wanted]
    assert len({memory(t) for t in got[:5]}) == 1 and memory(got[5]) != memory(got[0])


def test_equal_results_have_memory_of_their_own(entry_point: EntryPoint) -> None:
    with torch.no_grad():
        first, second = entry_point(lambda a: (a * 2, a * 2), (z(3),))(z(3))
    assert memory(first) != memory(second)
    same(first, second)


@pytest.mark.parametrize(
    "change", [lambda a: a.real.mul_(2), lambda a: a.conj().mul_(a), lambda a: a.view(torch.float32)[0].zero_()]
)
def test_an_argument_changed_through_such_a_view(entry_point: EntryPoint, change: Callable[[Tensor], Tensor]) -> None:
    def fn(a: Tensor) -> Tensor:
        change(a)
        return a + 1

    start = z(3, 4)
    with torch.no_grad():
        compiled = entry_point(fn, (start.clone(),))
        a, b = start.clone(), start.clone()
        same(compiled(a), fn(b))
        same(a, b)


def test_a_conjugate_changed_in_place(entry_point: EntryPoint) -> None:
    start = z(3, 4)
    with torch.no_grad():
        compiled = entry_point(lambda a: a.mul_(2) + 1, (start.clone().conj(),))
        a, b = start.clone(), start.clone()
        same(compiled(a.conj()), b.conj().mul_(2) + 1)
        same(a, b)


def test_a_product_of_one_row_for_all(entry_point: EntryPoint) -> None:
    """The library reads complex numbers as adjacent pairs, also those computed from expanded arguments."""
    for one in (z(1, 3).expand(4, 3), z(3, 1).expand(3, 4).t()):
        args = (one, z(4, 3))
        same(entry_point(lambda x, y: x.mH @ y, args)(*args), args[0].mH @ args[1], 1e-5, 1e-5)


def test_constants(entry_point: EntryPoint) -> None:
    constant = torch.tensor([1 + 2j, 3, 4j])
    with torch.no_grad():
        same(entry_point(lambda a: a * constant + torch.tensor([1j]), (z(3),))(constant), constant * constant + 1j)


def test_open_sizes() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda a: (a.conj(), (a.mH @ a).imag), backend=BACKEND, options=NO_CACHE, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 7):
            for a in (z(n, 2), z(n, 2).conj()):
                same(compiled(a), (a.conj(), (a.mH @ a).imag))


def test_cached_programs_return_the_same_views(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))

    def fn(a: Tensor) -> Any:
        return a.imag, (a * 2).conj(), a.view(torch.float64)

    a = z(3, 4)
    with torch.no_grad():
        for _ in range(2):
            got = lamina_compile(fn, (a,))(a)
            same(got, fn(a))
            assert [bits(t) for t in got] == [bits(t) for t in fn(a)]


def test_explain_shows_the_gradients_of_complex_results() -> None:
    found = explain(lambda a: (a * a, a.abs()), (z(3, 4).requires_grad_(),), training=True, show=False)
    assert [g.name for g in found.graphs] == ["graph 0", "graph 0 backward"]

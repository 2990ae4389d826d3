"""Compares ops on complex numbers with complex128, forward and backward, for sizes and layouts of all kinds, and checks that they
compile to Lamina's kernels."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from torch import Tensor

import lamina

Fn = Callable[..., Tensor]


def assigned(a: Tensor, b: Tensor) -> Tensor:
    out = torch.zeros_like(a)
    out[..., 1:] = b[..., :-1] * 2
    out[..., 0] = a[..., -1]
    return out


def placed(a: Tensor, b: Tensor) -> Tensor:
    return a.index_put((torch.arange(a.shape[0] - 1, -1, -1),), b * 2j)


ELEMENTS: dict[str, Fn] = {
    "add": lambda a, b: torch.add(a, b, alpha=2) - 1j,
    "subtract": lambda a, b: 1 - torch.sub(a, b, alpha=0.5 + 1j),
    "multiply": lambda a, b: a * b * (2 - 1j) * 3,
    "divide": lambda a, b: a / b,
    "divide by numbers": lambda a, b: a / 3 + b / (1 - 2j) + 2 / (b + 3),
    "reciprocal": lambda a, b: a.reciprocal(),
    "with real": lambda a, b: a * b.real + b.imag / a - b.abs(),
    "exp": lambda a, b: a.exp(),
    "log": lambda a, b: a.log(),
    "log to a base": lambda a, b: a.log2() + b.log10(),
    "sqrt": lambda a, b: a.sqrt() + b.rsqrt(),
    "trigonometric": lambda a, b: a.sin() * b.cos(),
    "hyperbolic": lambda a, b: a.sinh() + b.cosh() * a.tanh(),
    "sigmoid": lambda a, b: (a * 0.3).sigmoid(),
    "abs": lambda a, b: a.abs() + b.abs(),
    "angle": lambda a, b: a.angle(),
    "sgn": lambda a, b: a.sgn(),
    "conj": lambda a, b: a.conj() * b + b.conj(),
    "neg": lambda a, b: -a.conj().imag * b,
    "powers": lambda a, b: a**2 + b**3 + a**0.5 + a ** (0.3 + 1j),
    "power of tensors": lambda a, b: a**b + 2**b,
    "polar": lambda a, b: torch.polar(a.abs(), b.real) + torch.complex(b.imag, a.real),
    "with products": lambda a, b: torch.addcmul(a, a, b, value=2) + torch.addcdiv(a, b, a + 2, value=0.5),
    "where": lambda a, b: torch.where(a.real > b.real, a, b).masked_fill(b.imag > 0.5, 1 - 1j),
    "compared": lambda a, b: ((a == a.real) | (a != torch.where(b.real > 0, a, b))).int(),
    "is zero or no number": lambda a, b: a * ((a / a.real.relu()).isnan() | (b * b.real.relu()).logical_not()),
    "as real": lambda a, b: torch.view_as_complex(torch.view_as_real(a.resolve_conj()) * 2) - torch.view_as_real(b)[..., 1],
    "other dtypes": lambda a, b: a.to(torch.complex128) * b.real.to(torch.complex64) + 1,
}  # fmt: skip

MOVES: dict[str, Fn] = {
    "permuted": lambda a, b: a.movedim(0, -1) * b.movedim(0, -1),
    "sliced": lambda a, b: a[..., 1::2] + b[..., :-1:2][..., : a[..., 1::2].shape[-1]],
    "selected": lambda a, b: a[0] * b[-1],
    "indexed": lambda a, b: a[torch.tensor([2, 0, 1])] * b[:3],
    "joined": lambda a, b: torch.cat([a, b * 2j, a.conj()], -1),
    "stacked": lambda a, b: torch.stack([a, b + 1], 1),
    "expanded": lambda a, b: a[:1].expand_as(b) + b,
    "turned": lambda a, b: a.flip(-1) + b.roll(1, 0),
    "padded": lambda a, b: torch.nn.functional.pad(a, (1, 2)).abs(),
    "padded and cut": lambda a, b: torch.nn.functional.pad(a, (1, -1)) + torch.nn.functional.pad(b, (-2, 2)),
    "assigned": assigned,
    "placed": placed,
    "sums": lambda a, b: a.sum(-1) * b.mean(-1),
    "whole sums": lambda a, b: (a.sum() + b.mean()).abs(),
    "running sums": lambda a, b: (a * b).cumsum(-1),
    "triangles": lambda a, b: a.tril() + b.triu(1),
    "repeated": lambda a, b: (a.unsqueeze(-1).repeat(*[1] * a.dim(), 3) * b[..., None]).squeeze(),
    "gathered": lambda a, b: (a + b).gather(-1, torch.zeros(*a.shape[:-1], 2, dtype=torch.int64)),
    "norm": lambda a, b: torch.linalg.vector_norm(a * b, dim=-1),
}  # fmt: skip

PRODUCTS: dict[str, Fn] = {
    "matrices": lambda a, b: a @ b.mH,
    "matrix and vector": lambda a, b: a @ b[0],
    "rows": lambda a, b: torch.einsum("ij,ij->i", a, b.conj()),
    "outer": lambda a, b: torch.outer(a[:, 0], b[:, 0].conj()),
    "batches of rows": lambda a, b: torch.einsum("hn,hnl->hl", a, torch.exp(b[..., None] * 0.1 * torch.arange(5))),
    "transforms": lambda a, b: torch.fft.ifft(torch.fft.fft(a) * torch.fft.fft(b).conj()).abs(),
    "real transforms": lambda a, b: torch.fft.irfft(torch.fft.rfft(a.real, n=32) * torch.fft.rfft(b.imag, n=32), n=32),
}  # fmt: skip

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.movedim(0, -1).contiguous().movedim(-1, 0),
    "strided": lambda t: torch.stack([t, t], -1)[..., 1],
    "conjugate": lambda t: t.conj().resolve_conj().conj(),
    "offset": lambda t: torch.cat([t.flatten(), t.flatten()[:1]])[1:].view(t.shape),
}


def drawn(*shape: int, layout: str = "contiguous", dtype: torch.dtype = torch.complex64) -> Tensor:
    """Returns numbers by which a function may divide, and whose parts differ in size."""
    size = torch.rand(shape, dtype=torch.float64) * 2 + 0.25
    return LAYOUTS[layout](torch.polar(size, torch.rand(shape, dtype=torch.float64) * 6.28).to(dtype))


def close(got: Any, want: Any, *, double: bool = False) -> None:
    """Compares values with those of complex128, relative to the largest of them."""
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.is_complex() == b.is_complex()
        if a.numel():
            assert (a.to(b.dtype) - b).abs().max() <= (1e-11 if double else 2e-5) * (1 + b.abs().max()), (a, b)


def all_of(functions: dict[str, Fn]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda a, b: tuple(fn(a, b) for fn in functions.values())


def wide(*tensors: Tensor) -> list[Tensor]:
    return [t.detach().to(torch.complex128) for t in tensors]


@pytest.mark.parametrize("shape", [(1,), (127,), (4097,), (3, 0), (2, 3, 33)])
def test_elements(shape: tuple[int, ...]) -> None:
    model = all_of(ELEMENTS)
    a, b = drawn(*shape), drawn(*shape)
    compiled = lamina.compile(model, (a, b), options=NO_CACHE)
    close(compiled(a, b), model(*wide(a, b)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    """In strict mode: every op is in a kernel."""
    model = all_of({**ELEMENTS, **MOVES})
    a, b = drawn(5, 7, layout=layout), drawn(5, 7)
    compiled = lamina.compile(model, (a, b), options=NO_CACHE | {"strict": True})
    got, eager = compiled(a, b), model(a, b)
    close(got, model(*wide(a, b)))
    names = [name for name in {**ELEMENTS, **MOVES} if name != "angle"]  # whose strides torch does not tell ahead of the call
    strides = [dict(zip({**ELEMENTS, **MOVES}, (t.stride() for t in values), strict=True)) for values in (got, eager)]
    assert [strides[0][name] for name in names] == [strides[1][name] for name in names]
    a, b = drawn(5, 7, layout=layout), drawn(5, 7)
    close(compiled(a, b), model(*wide(a, b)))


def test_double() -> None:
    model = all_of({**ELEMENTS, **MOVES, **PRODUCTS})
    a, b = drawn(5, 7, dtype=torch.complex128), drawn(5, 7, dtype=torch.complex128)
    close(lamina.compile(model, (a, b), options=NO_CACHE)(a, b), model(a, b), double=True)


def test_broadcasts() -> None:
    def model(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return a * b, a / b, a + b.real, torch.where(a.real > 0, b, a), torch.complex(a.real, b.imag)

    a, b = drawn(4, 1, 5), drawn(3, 1)
    close(lamina.compile(model, (a, b), options=NO_CACHE)(a, b), model(*wide(a, b)))


SMOOTH = [name for name in ELEMENTS if name not in ("compared", "where", "other dtypes")]


@pytest.mark.parametrize("part", range(3))
def test_gradients(part: int) -> None:
    names = [*SMOOTH, *MOVES, *PRODUCTS][part::3]
    functions = {**ELEMENTS, **MOVES, **PRODUCTS}
    model = all_of({name: functions[name] for name in names})
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=False, fullgraph=True)
    a, b = (drawn(5, 7).requires_grad_() for _ in range(2))
    c, d = (t.requires_grad_() for t in wide(a, b))
    got, want = compiled(a, b), model(c, d)
    close(got, want)
    for x, y, name in zip(got, want, names, strict=True):
        gradient = torch.randn_like(y)
        found = torch.autograd.grad(x, (a, b), gradient.to(x.dtype), retain_graph=True, materialize_grads=True)
        expected = torch.autograd.grad(y, (c, d), gradient, retain_graph=True, materialize_grads=True)
        for p, q in zip(found, expected, strict=True):
            assert (p - q).abs().max() <= 1e-4 * (1 + q.abs().max()), name


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_slices_and_selections_are_kernels(dynamic: bool) -> None:
    """For example of the lowest frequencies, which a Fourier neural operator multiplies by weights."""

    def model(a: Tensor, b: Tensor) -> Tensor:
        return a[1:, 2:-1] * b[0, 1:-2] + b[..., 1::2].sum() * a[:, -1].sum()

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE | {"strict": True}, dynamic=dynamic, fullgraph=True)
    a, b = (drawn(5, 7).requires_grad_() for _ in range(2))
    c, d = (t.requires_grad_() for t in wide(a, b))
    got, want = compiled(a, b), model(c, d)
    gradient = torch.randn_like(want)
    close([got], [want])
    close(torch.autograd.grad(got, (a, b), gradient.to(got.dtype)), torch.autograd.grad(want, (c, d), gradient))


@pytest.mark.filterwarnings("error:lamina compiles this graph once per size")
def test_symbolic_sizes() -> None:
    model = all_of({**ELEMENTS, **{name: fn for name, fn in MOVES.items() if name not in ("indexed", "placed")}, **PRODUCTS})
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for rows, columns in ((5, 7), (3, 33), (9, 2)):
            a, b = drawn(rows, columns), drawn(rows, columns)
            close(compiled(a, b), model(*wide(a, b)))


def test_extremes() -> None:
    """Values whose squares overflow or underflow, zeros and infinities."""
    numbers = torch.tensor([1e30, 3e-30, 0, -0.0, float("inf"), 1, -2e19, 1e-20])
    a = torch.complex(*(p.flatten() for p in torch.meshgrid(numbers, numbers, indexing="ij")))
    for fn in (torch.abs, torch.angle, torch.sgn):
        got, want = lamina.compile(fn, (a,), options=NO_CACHE)(a), fn(a.to(torch.complex128)).to(fn(a).dtype)
        finite = torch.isfinite(a.real) & torch.isfinite(a.imag) if fn is torch.sgn else torch.ones_like(a.real, dtype=torch.bool)
        torch.testing.assert_close(got[finite], want[finite], rtol=1e-5, atol=0)
    b = torch.complex(torch.tensor([1e30, 1e-30]), torch.tensor([2e30, 1e-30]))
    c = torch.complex(torch.tensor([3e30, 3e-30]), torch.tensor([1e30, 0]))
    torch.testing.assert_close(lamina.compile(torch.div, (b, c), options=NO_CACHE)(b, c), (wide(b)[0] / wide(c)[0]).to(b.dtype))


def test_one_kernel_before_and_after_a_transform() -> None:
    def model(a: Tensor, b: Tensor) -> Tensor:
        return torch.fft.fft(a * b * (1 + 2j) - b.conj()).abs().log1p()

    (graph,) = lamina.explain(model, (drawn(4, 33), drawn(33)), show=False).graphs
    assert len(graph.kernels) == 2
    assert [call.callee for call in graph.fallbacks] == ["aten._fft_c2c.default"]

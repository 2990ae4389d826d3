"""Tests elementwise math functions that Lamina decomposes: special values, and errors against float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_decompositions import fallbacks, flat, graphs
from torch import Tensor

SPECIAL = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.75, -2.5, 1e-40, -1e-40, 1e-30, 3e38, -3e38])
LEFT, RIGHT = (t.reshape(-1).contiguous() for t in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
EXACT: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "signbit": (torch.signbit, [SPECIAL]),
    "signbit of integers": (torch.signbit, [torch.randint(-3, 4, (3, 5))]),
    "copysign": (torch.copysign, [LEFT, RIGHT]),
    "copysign, shapes and layouts": (torch.copysign, [torch.randn(5, 3).t(), torch.randn(5)]),
    "copysign of a number": (lambda a: torch.copysign(a, -2.0), [SPECIAL]),
    "copysign of integers": (lambda a: torch.copysign(a, -2), [torch.randint(-3, 4, (3, 5))]),
    "fmax, of zeros either": (lambda a, b: torch.fmax(a, b) + 0.0, [LEFT, RIGHT]),
    "fmin, of zeros either": (lambda a, b: torch.fmin(a, b) + 0.0, [LEFT, RIGHT]),
    "fmax of integers": (torch.fmax, [torch.randint(-3, 4, (3, 5)), torch.randint(-3, 4, (5,))]),
    "frexp": (torch.frexp, [SPECIAL]),
    "angle": (torch.angle, [SPECIAL]),
    "ldexp": (torch.ldexp, [torch.randn(3, 17), torch.randint(-9, 9, (17,))]),
    "signs of flags": (lambda a: (a.sign(), a.sgn(), a.signbit(), a.square()), [torch.tensor([True, False])]),
    **{
        f"{base} to the power of {str(dtype)[6:]}": (
            lambda n, base=base: base**n,
            [torch.tensor([-3, -2, -1, 0, 1, 2, 5, 7, 15, 31, 33, 62, 63, 64, 65]).to(dtype)],
        )
        for base in (2, -2, 10, 1, -1, 0, 6)
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    },
    "3 to the power of bytes": (lambda n: 3**n, [torch.arange(256).byte()]),
    "a view as words": (lambda a: (a.view(torch.int32) & 0x7FFFFFFF).view(torch.float32) + 1, [SPECIAL]),
}


def bits(x: Tensor) -> Tensor:
    """Returns a float's bits, which differ for -0 and 0, with the same bits for all NaNs."""
    if not x.dtype.is_floating_point:
        return x
    return torch.where(x.isnan(), math.nan, x).view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("name", EXACT)
def test_is_what_eager_computes(name: str) -> None:
    fn, inputs = EXACT[name]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        if dtype is not torch.float32 and (name.endswith("words") or not inputs[0].dtype.is_floating_point):
            continue
        given = [t.to(dtype) if t.dtype.is_floating_point else t for t in inputs]
        (gm,) = graphs(fn, given)
        assert fallbacks(gm) == set()
        compiled = torch.compile(fn, backend="lamina")
        wanted = flat(fn(*given))
        for found in (flat(gm(*given)), flat(compiled(*given))):
            for got, want in zip(found, wanted, strict=True):
                assert got.dtype == want.dtype and bits(got).equal(bits(want)), dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_next_number(dtype: torch.dtype) -> None:
    a, b = LEFT.to(dtype), RIGHT.to(dtype)
    (gm,) = graphs(torch.nextafter, [a, b])
    assert fallbacks(gm) == set()
    assert bits(flat(gm(a, b))[0]).equal(bits(torch.nextafter(a, b)))


CLOSE: dict[str, tuple[Callable[..., Tensor], list[Tensor], float]] = {
    "asinh": (torch.asinh, [torch.cat([torch.randn(500), torch.randn(500) * 1e30, torch.randn(500) * 1e-30, SPECIAL])], 3),
    "acosh": (torch.acosh, [torch.cat([1 + torch.rand(500), 1 + torch.rand(500) * 1e-4, torch.rand(500) * 1e38, SPECIAL])], 3),
    "atanh": (
        torch.atanh,
        [torch.cat([torch.rand(500) * 2 - 1, torch.randn(500) * 1e-30, 1 - torch.rand(500) * 1e-5, SPECIAL])],
        3,
    ),
    "hypot": (torch.hypot, [torch.cat([LEFT, torch.randn(500)]), torch.cat([RIGHT, torch.randn(500)])], 2),
    "digamma": (torch.digamma, [torch.cat([2 + torch.rand(500) * 20, torch.rand(500) * 1e30, torch.rand(500)])], 16),
    "lgamma": (
        torch.lgamma,
        [
            torch.cat(
                [
                    torch.rand(5000) * 20,
                    torch.rand(500) * 1e30,
                    1 - torch.rand(500) * 1e-3,
                    -torch.rand(9),
                    SPECIAL[SPECIAL != -2.5],
                ]
            )
        ],
        16,
    ),
    "erfc": (torch.erfc, [torch.cat([torch.randn(5000) * 4, torch.randn(500) * 1e-9, SPECIAL])], 10),
    "erfcx": (torch.special.erfcx, [torch.cat([torch.randn(5000) * 4, torch.rand(500) * 1e30, SPECIAL])], 14),
    "erfinv": (
        torch.erfinv,
        [torch.cat([torch.rand(5000) * 2 - 1, torch.rand(500) * 1e-9, 1 - torch.rand(500) * 1e-6, SPECIAL])],
        8,
    ),
    "log_ndtr": (lambda a: torch.special.log_ndtr(a), [torch.randn(500) - 3], 16),
    "i0": (torch.i0, [torch.cat([torch.randn(5000) * 9, torch.rand(500) * 1e-9, SPECIAL])], 14),
    "i0e": (torch.special.i0e, [torch.cat([torch.randn(5000) * 9, torch.rand(500) * 1e30, SPECIAL])], 14),
    "i1": (torch.special.i1, [torch.cat([torch.randn(5000) * 9, torch.rand(500) * 1e-9, SPECIAL])], 20),
    "i1e": (torch.special.i1e, [torch.cat([torch.randn(5000) * 9, torch.rand(500) * 1e30, SPECIAL])], 20),
    "trigamma": (lambda a: torch.polygamma(1, a), [torch.cat([torch.rand(500) * 20, torch.rand(500) * 1e15, -torch.rand(9)])], 16),
}


@pytest.mark.parametrize("name", CLOSE)
def test_errors_are_a_few_units_in_the_last_place(name: str) -> None:
    torch._dynamo.reset()  # builtin functions share the code that compiles them, and so the limit of recompilations
    fn, given, ulps = CLOSE[name]
    (gm,) = graphs(fn, given)
    assert fallbacks(gm) == set()
    exact = fn(*[t.double() for t in given])
    want = exact.float()
    normal = want.isfinite() & (want.abs() >= torch.finfo(torch.float32).tiny)
    for got in (flat(gm(*given))[0], torch.compile(fn, backend="lamina")(*given)):
        assert got.isnan().equal(want.isnan()) and got[want.isinf()].equal(want[want.isinf()])
        unit = torch.finfo(torch.float32).eps * exact[normal].abs()
        assert ((got[normal].double() - exact[normal]).abs() <= ulps * unit).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", [name for name in [*CLOSE][3:] if name != "hypot"])
def test_integers_are_taken_as_floats(name: str, dtype: torch.dtype) -> None:
    fn, inputs, _ = CLOSE[name]
    given = [torch.tensor([0, 1, 2, 3, 7, 100]).to(dtype)] * len(inputs)
    torch._dynamo.reset()
    (gm,) = graphs(fn, given)
    assert fallbacks(gm) == set()
    compiled = torch.compile(fn, backend="lamina")
    got, want = compiled(*given), compiled(*[t.float() for t in given])
    assert got.dtype == fn(*given).dtype and bits(got).equal(bits(want))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["lgamma", "erfc", "erfinv", "i0", "special.i0e", "special.i1", "special.i1e"])
def test_gradients_of_special_functions(name: str, dtype: torch.dtype) -> None:
    if dtype is torch.bfloat16 and name.startswith("special.i1"):
        pytest.skip("eager has no gradient of it")
    fn = getattr(torch.special, name.removeprefix("special.")) if "." in name else getattr(torch, name)
    torch._dynamo.reset()
    given = (torch.rand(99) * 0.9 + 0.05).to(dtype)
    graphs_ = graphs(fn, [given.clone().requires_grad_()])
    assert set().union(*map(fallbacks, graphs_)) == set()
    grads = []
    for run, at in ((torch.compile(fn, backend="lamina"), given), (fn, given), (fn, given.double())):
        leaf = at.clone().requires_grad_()
        run(leaf).sum().backward()
        grads.append(leaf.grad.double())  # type: ignore[union-attr]
    error, theirs = ((g - grads[2]).abs().max() for g in grads[:2])
    assert error <= 2 * theirs + 16 * torch.finfo(dtype).eps * grads[2].abs().max()


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_rounding_to_decimals(decimals: int) -> None:
    a = torch.cat([torch.randn(500) * 1000, torch.tensor([0.0, -0.0, 0.5, 2.5, math.inf, math.nan])])
    (gm,) = graphs(lambda t: torch.round(t, decimals=decimals), [a])
    assert fallbacks(gm) == set()
    torch.testing.assert_close(flat(gm(a))[0], torch.round(a, decimals=decimals), rtol=0, atol=0, equal_nan=True)
    half = a.bfloat16()
    (gm,) = graphs(lambda t: torch.round(t, decimals=decimals), [half])
    torch.testing.assert_close(flat(gm(half))[0], torch.round(half.double(), decimals=decimals).bfloat16(), equal_nan=True)

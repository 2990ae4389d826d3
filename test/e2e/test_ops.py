"""Compares every family of ops with eager and float64. Many ops share a graph, so that a case costs one compilation.

LAMINA_TEST_OPS=all runs every size with every dtype.
"""

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from oracle import check, compare, compiled
from torch import Tensor

from lamina.core.options import Options

ALL = os.environ.get("LAMINA_TEST_OPS") == "all"
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
SIZES = [0, 1, 3, 127, 1000, 4097]


@pytest.fixture(autouse=True)
def _own_numbers() -> None:
    """Seeds each test separately, so its random numbers do not depend on the tests that ran before."""
    torch.manual_seed(20)


def name(value: Any) -> str:
    return str(value).removeprefix("torch.").replace(" ", "") if isinstance(value, torch.dtype | tuple | list) else str(value)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(shape, dtype=torch.float64) * 2).to(dtype)


def integers(*shape: int, low: int = -50, high: int = 50, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape).to(dtype)


def sizes_for(dtypes: list[torch.dtype]) -> list[Any]:
    """Returns test parameters (dtype, size): the first dtype with every size and every dtype with one; all pairs if
    LAMINA_TEST_OPS=all."""
    pairs = itertools.product(dtypes, SIZES) if ALL else [(dtypes[0], n) for n in SIZES] + [(d, 127) for d in dtypes[1:]]
    return [pytest.param(d, n, id=f"{name(d)}-{n}") for d, n in pairs]


# -- pointwise


def smooth(x: Tensor) -> list[Tensor]:
    a = x.abs()
    return [
        x.exp(), (a + 0.1).log(), x.tanh(), x.sigmoid(), x.erf(), a.sqrt(), (a + 0.1).rsqrt(), x.sin(), x.cos(), 1 / (a + 0.1),
        (a + 0.1).log2(), (a + 0.1).log10(), a.log1p(), x.expm1(), (x / 4).exp2(), x.atan(), (x / 9).asin(), (x / 9).acos(), x.sinh(), x.cosh(),
    ]  # fmt: skip


def piecewise(x: Tensor) -> list[Tensor]:
    return [
        x.relu(), x.abs(), -x, x.sign(), x.floor(), x.ceil(), x.round(), x.trunc(), x.clamp(-1, 1.5), x.clamp_min(0.5), x**2, x**3,
        (x.abs() + 0.1) ** 0.5, (x.abs() + 0.1) ** -1.7, x.square(), x.frac(), x.isnan(), x.isinf(), x.isfinite(), torch.where(x > 0.3, x, 0.5),
    ]  # fmt: skip


def activations(x: Tensor) -> list[Tensor]:
    return [
        F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.elu(x), F.leaky_relu(x, 0.1), F.hardtanh(x), F.hardswish(x),
        F.hardsigmoid(x), F.relu6(x), F.logsigmoid(x), F.mish(x), F.selu(x), F.softsign(x), F.threshold(x, 0.1, 0.7), F.tanhshrink(x),
    ]  # fmt: skip


@pytest.mark.parametrize("ops", [smooth, piecewise, activations])
@pytest.mark.parametrize(("dtype", "n"), sizes_for(FLOATS))
def test_unary(ops: Callable[[Tensor], list[Tensor]], dtype: torch.dtype, n: int) -> None:
    check(ops, normal(n, dtype=dtype), ulps=8)


def special(x: Tensor) -> list[Tensor]:
    return [x.relu(), x.abs(), x.exp(), x.tanh(), x.sigmoid(), x.clamp(-1, 1), x.isnan(), torch.maximum(x, -x), torch.minimum(x, x * 0 + 1),
            x == x, x < 1, x.sqrt(), x.log(), x.sin(), x.erf(), x.floor(), 1 / x, x.sum(), x.amax(), x.amin(), F.gelu(x.clamp(-99, 99))]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_special_values(dtype: torch.dtype) -> None:
    """NaN, infinities, zeros of both signs, and the largest and smallest numbers."""
    info = torch.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), info.max, info.min, info.tiny, info.eps, 0.5]
    x = torch.tensor(values * 3, dtype=torch.float64).to(dtype)
    check(special, x, ulps=8)


def binary(x: Tensor, y: Tensor) -> list[Tensor]:
    positive = y.abs() + 0.5
    return [
        x + y, x - y, x * y, x / positive, torch.maximum(x, y), torch.minimum(x, y), torch.atan2(x, y), torch.add(x, y, alpha=2.5),
        torch.sub(x, y, alpha=-0.3), torch.fmod(x, positive), torch.remainder(x, positive), positive**x.clamp(-2, 2), torch.lerp(x, y, 0.3),
        torch.addcmul(x, x, y, value=0.5), torch.addcdiv(x, y, positive, value=0.5), x == y, x != y, x < y, x <= y, x > y, x >= y,
        torch.where(x > y, x, y), 2 - x, x.masked_fill(y > 0, 0.25), torch.where(x > 0, 1.0, y),
    ]  # fmt: skip


@pytest.mark.parametrize(("dtype", "n"), sizes_for(FLOATS))
def test_binary(dtype: torch.dtype, n: int) -> None:
    check(binary, normal(n, dtype=dtype), normal(n, dtype=dtype), ulps=8)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 1, 5), (4, 1)), ((127,), ()), ((1,), (3, 7)), ((33, 1), (1, 129)), ((2, 3, 4, 5), (3, 1, 5)), ((1, 1), (1, 1)), ((0, 3), (1, 3)),
     ((17, 1, 1), (1, 65, 1)), ((1000, 2), (2,)), ((2, 1000), (2, 1))],
)  # fmt: skip
def test_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    def ops(x: Tensor, y: Tensor) -> list[Tensor]:
        return [x + y, x * y.exp(), torch.where(x > y, x, y), (x - y).abs() * 2, x.expand((x - y).shape).clone()]

    check(ops, normal(*a), normal(*b))


def integer(x: Tensor, y: Tensor) -> list[Tensor]:
    return [
        x + y, x - y, x * y, 3 - x, torch.sub(x, y, alpha=3), x | 3, x ^ 5, x & 6, x // 7, torch.div(x, -3, rounding_mode="trunc"), x % 5, x % -5, torch.fmod(x, 5),
        x & y, x | y, x ^ y, ~x, -x, x.abs(), torch.maximum(x, y), torch.minimum(x, y), x.clamp(-3, 9), x == y, x < y, x >= y, x / 7, x > 3,
        torch.where(x > y, x, y), x.sign(), x**2, x * True, torch.addcmul(x, x, y, value=2), F.hardtanh(x, -3, 5), x.sum(), x.amax(), x.amin(), x.cumsum(0), x + 2, x * 1.5, x.bool(), x.float().exp().clamp(0, 9),
    ]  # fmt: skip


@pytest.mark.parametrize(("dtype", "n"), sizes_for(INTEGERS[::-1]))
def test_integer(dtype: torch.dtype, n: int) -> None:
    if n == 0:
        check(lambda x, y: [x + y, x & y, ~x, x == y, x.sum()], integers(0, dtype=dtype), integers(0, dtype=dtype))
    else:
        check(integer, integers(n, dtype=dtype), integers(n, dtype=dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
def test_integer_division(dtype: torch.dtype) -> None:
    """Division by a tensor is left to eager's op, which raises the error for a division by zero."""

    def ops(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.div(x + 1, y, rounding_mode=m) * 2 for m in ("floor", "trunc")] + [
            x % y,
            torch.fmod(x, y),
            (x * 2) // y,
            x / y,
        ]

    x, y = integers(127, dtype=dtype), integers(127, dtype=dtype)
    y[y == 0] = 3
    compare(ops, (x, y), compiled(ops, (x, y), Options(strict=False, cache=False))(x, y))


def test_bool() -> None:
    def ops(a: Tensor, b: Tensor) -> list[Tensor]:
        return [a & b, a | b, a ^ b, ~a, a == b, a != b, a.logical_and(b), a.logical_or(b), a.logical_xor(b), a.logical_not(), a.sum(0), a.any(),
                a.all(), a.any(0), a.all(1), a.int() + b, a.float() * 2.5, torch.where(a, b, ~b), a * 3, a.long().cumsum(0)]  # fmt: skip

    check(ops, torch.rand(33, 7) > 0.5, torch.rand(33, 7) > 0.2)


def test_promotion() -> None:
    def ops(f: Tensor, d: Tensor, h: Tensor, b: Tensor, i: Tensor, s: Tensor, t: Tensor, z: Tensor) -> list[Tensor]:
        return [f + d, f * h, h + b.float(), f * i, h * i, b + i, i + s, s * t, t + i, f + t, torch.where(t, f, d), f * z, i * z, i + 0.5, s / 2,
                t + 1, t.float() - f, f > i, torch.where(t, 1, f), f.double() * d, i.to(torch.float32) / 3, d.to(torch.float32)]  # fmt: skip

    n = 65
    floats = [normal(n), normal(n, dtype=torch.float64), normal(n, dtype=torch.float16), normal(n, dtype=torch.bfloat16)]
    check(ops, *floats, integers(n), integers(n, dtype=torch.int8), torch.rand(n) > 0.5, torch.tensor(3.5), absolute=4)


CASTS = [*FLOATS, *INTEGERS, torch.bool]


@pytest.mark.parametrize("dtype", CASTS, ids=name)
def test_casts(dtype: torch.dtype) -> None:
    x = (torch.rand(129) > 0.5) if dtype is torch.bool else (normal(129).double() * 10).to(dtype)
    check(lambda x: [x.to(d) for d in CASTS] + [x.to(d) + 1 for d in INTEGERS], x)


# -- reductions

REDUCED = [(3, 5, 7), (127, 33), (2, 129, 65), (1, 1000), (1000, 1), (4097,), (3, 1, 4, 2)]


def _reductions(dims: tuple[int, ...], keep: bool) -> Callable[[Tensor], list[Tensor]]:
    def ops(x: Tensor) -> list[Tensor]:
        d: Any = list(dims)
        out = [
            x.sum(d, keepdim=keep), x.mean(d, keepdim=keep), x.amax(d, keepdim=keep), x.amin(d, keepdim=keep), x.logsumexp(d, keepdim=keep),
            x.var(d, keepdim=keep, correction=0), x.std(d, keepdim=keep, correction=0), torch.linalg.vector_norm(x, 2, d, keep),
            torch.linalg.vector_norm(x, 1, d, keep), (x > 2).any(d, keep), (x > -3).all(d, keep), torch.var_mean(x, d, correction=0, keepdim=keep)[1],
        ]  # fmt: skip
        if len(dims) == 1:
            out += [
                x.argmax(d[0], keepdim=keep),
                x.argmin(d[0], keepdim=keep),
                (x * 0.1 + 1).prod(d[0], keepdim=keep),
                *x.max(d[0], keepdim=keep),
            ]
        return out

    return ops


def _subsets(rank: int) -> list[tuple[int, ...]]:
    return [c for k in range(1, rank + 1) for c in itertools.combinations(range(rank), k)]


@pytest.mark.parametrize(
    ("shape", "dims"), [pytest.param(s, d, id=f"{'x'.join(map(str, s))}-{d}") for s in REDUCED for d in _subsets(len(s)) if ALL or len(s) < 4 or len(d) != 2]
)  # fmt: skip
def test_reductions(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    check(_reductions(dims, keep=sum(dims) % 2 == 0), normal(*shape), absolute=64)


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=name)
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=name)
def test_reductions_of(dtype: torch.dtype, dims: tuple[int, ...]) -> None:
    check(_reductions(dims, keep=True), normal(65, 127, dtype=dtype), absolute=64)


def test_whole_reductions() -> None:
    def ops(x: Tensor) -> list[Tensor]:
        return [x.sum(), x.mean(), x.max(), x.min(), x.var(), x.std(), x.norm(), x.argmax(), x.argmin(), (x > 0).any(), (x > 0).all(), (x * 0.01 + 1).prod(),
                x.mean() * 2 + x, (x - x.mean()) / x.std(), x / x.sum(), (x * x).sum().sqrt()]  # fmt: skip

    for shape in ((3, 7), (1000,), (1,), (5, 4, 3, 2)):
        check(
            ops if shape != (1,) else lambda x: [x.sum(), x.mean(), x.max(), x.argmax(), x / x.sum()], normal(*shape), absolute=64
        )


def test_reductions_of_nothing() -> None:
    check(lambda x: [x.sum(), x.sum(0), x.sum(1), x.mean(1), x.amax(1), x.prod(0), x.any(0), x.logsumexp(1)], normal(0, 5))
    check(lambda x: [x.sum(), x + 1, x.softmax(1), x.t() * 2, torch.cat([x, x], 0)], normal(3, 0))


@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (33, 129), (1000,), (1, 1), (4097, 2)], ids=name)
def test_softmax(shape: tuple[int, ...]) -> None:
    check(lambda x: [f(x, d) for d in range(len(shape)) for f in (F.softmax, F.log_softmax)], normal(*shape), absolute=4)


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=name)
def test_softmax_of(dtype: torch.dtype) -> None:
    check(lambda x: [x.softmax(-1), x.log_softmax(0), x.softmax(0, dtype=torch.float32)], normal(33, 129, dtype=dtype), absolute=4)


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("shape", [(5, 7, 33), (3, 1, 127), (2, 1000)], ids=name)
def test_norms(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def ops(x: Tensor, w: Tensor, b: Tensor, c: Tensor) -> list[Tensor]:
        last = [shape[-1]]
        out = [
            F.layer_norm(x, last),
            F.layer_norm(x, last, w, b),
            F.rms_norm(x, last, w, eps=1e-5),
            F.layer_norm(x, list(shape[1:])),
        ]
        if len(shape) > 2:
            out += [F.batch_norm(x, None, None, c, c.abs(), training=True), F.instance_norm(x.float())] if shape[2] > 1 else []
            out += [F.batch_norm(x, c * 0, c.abs() + 0.5, c, c), F.group_norm(x, 1, c, c)]
        return out

    check(ops, *(normal(*s, dtype=dtype) for s in (shape, shape[-1:], shape[-1:], shape[1:2])), absolute=64)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction: str) -> None:
    def ops(x: Tensor, y: Tensor, t: Tensor, w: Tensor) -> list[Tensor]:
        r: Any = {"reduction": reduction}
        return [
            F.cross_entropy(x, t, **r), F.cross_entropy(x, t, weight=w, **r), F.cross_entropy(x, t, label_smoothing=0.1, **r),
            F.cross_entropy(x, t, ignore_index=3, **r), F.cross_entropy(x, y.softmax(-1), **r), F.nll_loss(x.log_softmax(-1), t, **r),
            F.mse_loss(x, y, **r), F.l1_loss(x, y, **r), F.smooth_l1_loss(x, y, **r), F.huber_loss(x, y, **r),
            F.binary_cross_entropy_with_logits(x, y.sigmoid(), **r), F.kl_div(x.log_softmax(-1), y.softmax(-1), **r),
        ]  # fmt: skip

    check(ops, normal(33, 65), normal(33, 65), integers(33, low=0, high=65), torch.rand(65) + 0.5, absolute=64)


# -- moving data


def views(x: Tensor) -> list[Tensor]:
    return [
        x.permute(2, 0, 1), x.transpose(0, 1) + 1, x.reshape(-1), x.reshape(x.shape[0], -1) * 2, x.flatten(1), x.unsqueeze(1), x[:, :1], x[..., ::2],
        x[:, 1:, :], x[0], x[:, -1] * 3, x.select(2, 1), x.narrow(2, 1, 2), x.flip(0), x.flip(0, 2), x.roll(2, 2), x.roll((1, -1), (0, 1)), x.roll(5),
        torch.cat([x, x * 2], 0), torch.cat([x, x[:, :1]], 1), torch.stack([x, x.exp()], 1), torch.stack([x, x], -1), F.pad(x, [1, 2]),
        F.pad(x, [1, 0, 2, 3], value=0.5), F.pad(x, [-1, -1]), F.pad(x, [-1, 2, 1, -1]), x.tril(), x.triu(1), x.tril(-1), x.expand(2, *x.shape),
        x.repeat(1, 2, 2), x.unsqueeze(-1).squeeze(-1), *x.chunk(2, 2), *x.split([1, x.shape[1] - 1], 1), x.diagonal(0, 1, 2), x.mT, x.clone(),
        x.contiguous(), x.movedim(0, 2).contiguous(), x.unflatten(2, (1, -1)), x.swapaxes(1, 2)[:, ::3], x.unbind(1)[0], x.new_zeros(3) + x.abs().sum(),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 2, 4), (17, 3, 65), (1, 2, 127), (4, 33, 32)], ids=name)
def test_views(shape: tuple[int, ...]) -> None:
    check(views, normal(*shape))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bfloat16, torch.float64], ids=name)
def test_views_of(dtype: torch.dtype) -> None:
    check(lambda x: views(x)[:30], (normal(3, 5, 7) * 5).to(dtype))


LAYOUTS = {
    "contiguous": lambda *s: normal(*s),
    "transposed": lambda *s: normal(*reversed(s)).permute(*reversed(range(len(s)))),
    "offset": lambda *s: normal(*(n + 3 for n in s))[tuple(slice(2, 2 + n) for n in s)],
    "steps": lambda *s: normal(*(2 * n for n in s))[tuple(slice(None, None, 2) for _ in s)],
    "expanded": lambda *s: normal(*s[:-1], 1).expand(*s),
    "rows alike": lambda *s: normal(1, *s[1:]).expand(*s),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(33, 65), (127, 3), (1, 1000), (64, 64)] + ([(1000, 257), (5, 4097)] if ALL else []), ids=name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, shape: tuple[int, int]) -> None:
    def ops(x: Tensor, y: Tensor) -> list[Tensor]:
        return [
            x.exp() + y,
            x.sum(0),
            x.softmax(1),
            x.t() * 2,
            x.reshape(-1)[1:],
            x.amax(1),
            x.flip(0),
            x.t() + y.t(),
            x.reshape(-1).cumsum(0),
        ]

    check(ops, LAYOUTS[layout](*shape), normal(*shape), absolute=64)


def test_reversed_parts_that_do_not_vary_along_what_is_reversed() -> None:
    """A value that is the same for all rows is read without bounds on rows; the check of the reversed rows must stay."""

    def ops(x: Tensor, row: Tensor, column: Tensor) -> list[Tensor]:
        a, b = x * 2 + row, x * 2 + column
        return [F.pad(a.flip(0), (0, 0, 2, 2)), torch.cat([a.flip(0), x]), F.pad(b.flip(1), (3, 3)), torch.cat([b, b.flip(1)], 1)]

    check(ops, normal(8, 16), normal(16), normal(8, 1))


def test_indexing() -> None:
    def ops(x: Tensor, i: Tensor, j: Tensor, g: Tensor, m: Tensor) -> list[Tensor]:
        return [
            x[i], x[:, j], x[i, j], x[i[:, None], j[None, :]], x[j - 1], x[-1 - i] * 2, x.index_select(0, i), x.index_select(1, j), x.gather(1, g),
            x.gather(0, g), F.embedding(i, x), F.embedding(m, x).sum(1), x[2:][i % 5].exp(), x.softmax(-1).gather(1, g), x[i] + x[j - 1],
            torch.take_along_dim(x, g, 0), x.t()[j], F.embedding(m, x) * 2 + x[:4].unsqueeze(1)[:, :1], F.one_hot(i, 33).to(x.dtype) @ x,
        ]  # fmt: skip

    x, i, j = normal(33, 9), integers(9, low=0, high=33), integers(9, low=0, high=9)
    check(ops, x, i, j, integers(5, 9, low=0, high=9), integers(4, 6, low=0, high=33))


BAD = {
    "embedding": (lambda x, i: F.embedding(i, x), 33), "gather": (lambda x, i: x.gather(0, i[:, None]), 33),
    "index_select": (lambda x, i: x.index_select(0, i), 33), "index": (lambda x, i: x[i] * 2, 33), "below": (lambda x, i: x[i], -34),
    "negative": (lambda x, i: F.embedding(i, x), -1), "second": (lambda x, i: x[:, i].exp().sum(1), 9),
    "in a sum": (lambda x, i: F.embedding(i, x).sum(), 33), "in a cat": (lambda x, i: torch.cat([x[i], x], 0), 33),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_index_out_of_range(case: str) -> None:
    fn, bad = BAD[case]
    run = compiled(fn, (normal(33, 9), integers(17, low=0, high=9)))
    for place in (0, 8, 16):
        i = integers(17, low=0, high=9)
        x = normal(33, 9)
        got = run(x, i)
        compare(fn, (x, i), got)
        assert case in ("second", "in a sum") or torch.equal(got[0], fn(x, i)), "values that nothing sums are eager's own"
        i[place] = bad
        with pytest.raises(IndexError, match="index out of range"):
            run(x, i)


def test_cumulative() -> None:
    def ops(x: Tensor, n: Tensor) -> list[Tensor]:
        return [
            x.cumsum(0),
            x.cumsum(1),
            x.exp().cumsum(-1) * 2,
            n.cumsum(1),
            (x > 0).cumsum(0),
            x.cumsum(1).softmax(0),
            x.t().cumsum(0),
        ]

    for shape in ((33, 65), (1, 127), (1000, 3)):
        check(ops, normal(*shape), integers(*shape), absolute=4)


@pytest.mark.parametrize("n", [4097, 100000])
def test_long_scans(n: int) -> None:
    """Scans over rows of one lane, over lanes of many rows, and in half types are as accurate as eager's, which accumulate in
    double."""
    check(lambda x: [x.cumsum(0), (x + 100).cumsum(0)], normal(n))
    check(lambda x: [x.cumsum(0), x.cumsum(1)], normal(n, 3).abs())
    check(lambda x: x.cumsum(1), normal(33, n // 20))
    check(lambda x: x.cumsum(0), normal(n, dtype=torch.bfloat16))


@pytest.mark.parametrize("size", [(17, 19), (16, 16), (7, 33)], ids=name)
def test_pooling(size: tuple[int, int]) -> None:
    def ops(x: Tensor) -> list[Tensor]:
        return [
            F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (3, 2), 1, (1, 0)), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 1), F.max_pool1d(x[0], 3), F.avg_pool1d(x[0], 2),
            F.relu(F.max_pool2d(x + 1, 2)) * 2, F.adaptive_avg_pool2d(x[..., :6, :6], 3), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool1d(x[0], 4),
        ]  # fmt: skip

    check(ops, normal(2, 3, *size))


def test_upsampling() -> None:
    def ops(x: Tensor) -> list[Tensor]:
        return [
            F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 4)), F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, size=(11, 9), mode="bilinear", align_corners=True), F.pixel_shuffle(x[:, :4], 2), F.pixel_unshuffle(x[..., :4, :4], 2),
        ]  # fmt: skip

    check(ops, normal(2, 4, 5, 7), absolute=8)


def test_positions() -> None:
    def ops(x: Tensor) -> list[Tensor]:
        n, m = x.shape
        row, column = torch.arange(n)[:, None], torch.arange(m)
        causal = column <= row
        return [
            x.masked_fill(~causal, float("-inf")).softmax(-1), torch.where(causal, x, 0.0), x * column, x + row * 0.5, (column % 3 == 0) & (x > 0),
            torch.arange(n) * 2, torch.arange(1, m, 3).float(), torch.linspace(0, 1, m) * x, torch.ones(n, m).tril() * x, torch.eye(n, m) + x,
            torch.zeros(n) + x[:, 0], torch.full((m,), 2.5) * x, x.new_ones(n, m) * 3, column.flip(0) * x, torch.arange(n * m).view(n, m)[:, ::2],
        ]  # fmt: skip

    for shape in ((33, 65), (7, 7), (1, 127)):
        check(ops, normal(*shape), absolute=4)


def test_products() -> None:
    def ops(x: Tensor, y: Tensor, b: Tensor) -> list[Tensor]:
        return [x @ y, F.relu(x @ y + b), F.linear(x, y.t(), b).softmax(-1), torch.bmm(x.expand(3, -1, -1), y.expand(3, -1, -1)) * 2, x.exp() @ y,
                (x @ y).t().sum(0), torch.einsum("ij,jk->ki", x, y), x @ y[:, 0], torch.outer(b, b)]  # fmt: skip

    check(ops, normal(33, 17), normal(17, 65), normal(65), absolute=256)


def test_without_dimensions() -> None:
    """torch accepts dimension 0 for tensors without dimensions."""

    def ops(x: Tensor) -> list[Tensor]:
        return [x.amax(0), x.amin(-1, keepdim=True), *torch.aminmax(x, dim=0), x.sum(0), x.mean(0), x.logsumexp(0), x.cumsum(0), x.softmax(0),
                x.squeeze((0,)) + 1, x.unsqueeze(0).squeeze(()) * 2]  # fmt: skip

    check(ops, normal())


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=name)
def test_comparisons_of_constants(dtype: torch.dtype) -> None:
    """torch-mlir's folder swaps the operands of some, and crashes the process on others."""

    def ops(x: Tensor) -> list[Tensor]:
        out = []
        for value, bound in itertools.product((0.75, -1, 2, 0), (0, 0.5, 1, -1)):
            whole = torch.full_like(x, value) * torch.ones_like(x)
            for holds in (torch.gt, torch.lt, torch.ge, torch.le, torch.eq, torch.ne):
                out += [
                    torch.where(holds(whole, bound), x, ~x if dtype is torch.bool else x + 1),
                    holds(whole, torch.full_like(x, bound)),
                ]
        return out

    check(ops, torch.tensor([1, 0, 1]).to(dtype))

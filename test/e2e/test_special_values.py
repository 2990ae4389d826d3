"""Tests NaN, infinities, signed zeros and denormals in pointwise ops and constants, and results that are the argument itself."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from oracle import check
from torch import Tensor

import lamina

aten = torch.ops.aten
NAN, INF = math.nan, math.inf
VALUES = torch.tensor(
    [NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 6.0, 7.0, 1e30, -1e30]
)
EntryPoint = Callable[[Callable[..., Any], tuple[Tensor, ...]], Any]

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": torch.sign, "sgn": torch.sgn, "abs": torch.abs, "neg": torch.neg, "relu": torch.relu, "relu6": F.relu6,
    "hardtanh": F.hardtanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "silu": F.silu, "softplus": F.softplus, "logsigmoid": F.logsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "exp": torch.exp, "log": torch.log, "log1p": torch.log1p, "expm1": torch.expm1, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "isnan": torch.isnan,
    "clamp": lambda x: torch.clamp(x, -1, 1), "clamp by nan": lambda x: torch.clamp(x, min=NAN),
    "clamp_min": lambda x: torch.clamp_min(x, 0.5), "threshold": lambda x: F.threshold(x, 0.5, 7.0),
    "x + 0.0": lambda x: x + 0.0, "x + -0.0": lambda x: x + -0.0, "x - 0.0": lambda x: x - 0.0, "0.0 - x": lambda x: 0.0 - x,
    "x * 0.0": lambda x: x * 0.0, "x * -0.0": lambda x: x * -0.0, "x * 1": lambda x: x * 1, "x * -1": lambda x: x * -1,
    "x - x": lambda x: x - x, "x / x": lambda x: x / x, "x / 0.0": lambda x: x / 0.0, "x / -0.0": lambda x: x / -0.0,
    "x == x": lambda x: x == x, "x ** 0": lambda x: x**0, "x ** 2": lambda x: x**2, "x ** -1": lambda x: x**-1,
    "log exp": lambda x: torch.log(torch.exp(x * 0.01)), "- -x": lambda x: torch.neg(torch.neg(x)), "x * nan": lambda x: x * NAN,
    "fmod": lambda x: torch.fmod(x, 2), "fmod inf": lambda x: torch.fmod(x, INF), "x // 2": lambda x: x // 2,
    "x // -2.0": lambda x: x // -2.0, "div trunc": lambda x: torch.div(x, 2, rounding_mode="trunc"),
    "where": lambda x: torch.where(x > 0, x, -0.0), "where 0": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, -0.0), "full -0": lambda x: torch.full_like(x, -0.0),
    "full nan": lambda x: torch.full_like(x, NAN),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "maximum": lambda x, y: torch.maximum(x, y) + 0.0, "minimum": lambda x, y: torch.minimum(x, y) + 0.0, "fmax": lambda x, y:
    torch.fmax(x, y) + 0.0, "add": torch.add, "mul": torch.mul, "div": torch.div, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt,
    "floor divide": torch.floor_divide, "pow": torch.pow, "clamp": lambda x, y: torch.clamp(x, min=y) + 0.0,
    "threshold_backward": lambda x, y: aten.threshold_backward(x, y, 0.0),
    "hardtanh_backward": lambda x, y: aten.hardtanh_backward(x, y, -1, 1), "hardswish_backward": aten.hardswish_backward,
    "leaky_relu_backward": lambda x, y: aten.leaky_relu_backward(x, y, 0.01, False), "tanh_backward": aten.tanh_backward,
}  # fmt: skip
"""Adds 0.0, because either of two zeros may count as the greater."""
CONSTANTS: list[Callable[[], Tensor]] = [
    lambda: torch.zeros(3) * -1, lambda: torch.zeros(3) * -1.0, lambda: -torch.zeros(3), lambda: torch.zeros(3) * NAN,
    lambda: torch.full((3,), NAN) * 0, lambda: torch.full((3,), NAN) == torch.full((3,), NAN), lambda: torch.full((5,), -0.0).sum(),
    lambda: torch.cat([torch.zeros(3), torch.full((3,), -0.0)]), lambda: 1 / torch.tensor([0.0, -0.0]),
    lambda: torch.full((3,), -0.0) + torch.zeros(3), lambda: torch.sign(torch.full((3,), NAN)), lambda: torch.zeros(3) / -1,
    lambda: torch.constant_pad_nd(torch.zeros(2), [1, 1], -0.0), lambda: torch.floor(torch.full((3,), -0.5)) * 0,
]  # fmt: skip


@pytest.fixture(params=["compile", "dynamo"])
def through(request: pytest.FixtureRequest) -> EntryPoint:
    """Returns a function that compiles another by one of the two entry points and returns its results."""

    def ahead(f: Callable[..., Any], args: tuple[Tensor, ...]) -> Any:
        return lamina.compile(f, args)(*args)

    def jit(f: Callable[..., Any], args: tuple[Tensor, ...]) -> Any:
        torch._dynamo.reset()
        return torch.compile(f, backend="lamina")(*args)

    return ahead if request.param == "compile" else jit


def wrong(got: Tensor, want: Tensor) -> Tensor:
    """Returns where results differ by more than rounding: in NaN, infinity, or the sign of a zero."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if not want.dtype.is_floating_point:
        return got != want
    same = (got == want) & (torch.signbit(got) == torch.signbit(want)) | (got.isnan() & want.isnan())
    near = torch.isclose(got.double(), want.double(), 1e-5 if want.dtype is torch.float32 else 2e-2, 3e-45)
    return ~(same | (near & (want != 0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_pointwise(dtype: torch.dtype, through: EntryPoint) -> None:
    x = VALUES.to(dtype)
    got = through(lambda x: [f(x) for f in UNARY.values()], (x,))
    for (name, f), result in zip(UNARY.items(), got, strict=True):
        one_by_one = torch.stack(
            [f(v.reshape(1))[0] for v in x]
        )  # eager's vector code has other special values than its scalar code
        bad = wrong(result, one_by_one) & wrong(result, f(x.double()).to(one_by_one.dtype))
        assert not bad.any(), (name, x[bad], result[bad], one_by_one[bad])


def test_pairs(through: EntryPoint) -> None:
    x, y = (v.flatten().resize_(448) for v in torch.meshgrid(VALUES, VALUES, indexing="ij"))  # eager's vector code in every place
    x[441:], y[441:] = 1.0, 2.0
    got = through(lambda x, y: [f(x, y) for f in BINARY.values()], (x, y))
    for (name, f), result in zip(BINARY.items(), got, strict=True):
        bad = wrong(result, f(x, y))
        assert not bad.any(), (name, x[bad], y[bad], result[bad], f(x, y)[bad])


def test_constants(through: EntryPoint) -> None:
    got = through(lambda x: [f() for f in CONSTANTS], (torch.ones(1),))
    for i, (f, result) in enumerate(zip(CONSTANTS, got, strict=True)):
        assert not wrong(result, f()).any(), (i, result, f())


def test_a_zero_s_sign_tells_programs_apart() -> None:
    x = torch.tensor([-0.0])
    for zero in (0.0, -0.0, 0.0):
        (result,) = lamina.compile(lambda x, zero=zero: x * 0.5 + zero, (x,))(x)
        assert math.copysign(1, result) == math.copysign(1, zero)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("p, training", [(0.5, False), (0.0, True), (0.0, False)])
def test_idle_dropout_is_its_argument(p: float, training: bool, trained: bool, through: EntryPoint) -> None:
    x = torch.randn(4, 6, requires_grad=trained)
    assert F.dropout(x, p, training) is x
    assert through(lambda x: F.dropout(F.dropout(x, p, training), p, training), (x,)).data_ptr() == x.data_ptr()
    torch.testing.assert_close(through(lambda x: F.dropout(x * 2, p, training) + 1, (x,)), x * 2 + 1)


@pytest.mark.filterwarnings("error")
def test_a_constant_mask_of_infinities() -> None:
    def masked(x: Tensor) -> Tensor:
        return torch.softmax(x + torch.full((5, 5), -INF).triu(1), -1)

    x = torch.randn(5, 5)
    torch.testing.assert_close(lamina.compile(masked, (x,), options={"cache": False})(x), masked(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_equal_choices_take_the_shape_of_the_condition(dtype: torch.dtype) -> None:
    """Also if the operands are found to be equal only during compilation."""

    def choose(x: Tensor, row: Tensor, flags: Tensor) -> list[Tensor]:
        same = torch.where(flags, x, x), torch.where(flags, row, row.clone()), torch.where(flags, x * 1, x)
        return [*same, torch.where(flags, torch.full((), 2.0), torch.full((), 2.0)), torch.where(flags, x, row)]

    check(choose, torch.randn(()).to(dtype), torch.randn(5).to(dtype), torch.randn(3, 5) > 0)

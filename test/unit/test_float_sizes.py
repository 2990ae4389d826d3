"""Tests sizes that are rounded from floats computed from sizes: Python's values, and bounds for proofs."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy

from lamina.core.binding.template import Template
from lamina.core.sizes import (
    LOWEST,
    Size,
    SizeLike,
    at_least,
    at_most,
    below,
    evaluate,
    is_symbolic,
    parse,
    readable,
    substituted,
    typical,
    without_hints,
)  # fmt: skip
from lamina.core.sizes.values import float_of, rounded
from lamina.frontend.fx.size_expressions import expression_of

N, M = parse("s0~8"), parse("s1~5")


def constant(value: float) -> Size:
    return float_of("fdiv", *value.as_integer_ratio())


def times(size: SizeLike, value: float) -> Size:
    return float_of("fmul", size, constant(value))


FORMULAS = {
    "a share": (rounded("trunc", times(N, 0.7)), lambda n, m: int(n * 0.7)),
    "of two": (rounded("floor", float_of("fmul", times(N, 0.3), M)), lambda n, m: math.floor(n * 0.3 * m)),
    "to even": (rounded("round", float_of("fdiv", N, 2)), lambda n, m: round(n / 2)),
    "a quotient": (rounded("ceil", float_of("fdiv", times(N, 1.1), float_of("fadd", M, constant(0.1)))), lambda n, m: math.ceil(n * 1.1 / (m + 0.1))),
    "digits": (rounded("ceil", float_of("flog2", N, 1)) * 3 + M, lambda n, m: 3 * math.ceil(math.log2(n)) + m),
    "a power": (rounded("trunc", float_of("fpow", N, constant(0.8))), lambda n, m: int(n**0.8)),
    "bounded": (rounded("trunc", float_of("fmul", float_of("fmin", constant(0.6), float_of("fdiv", 20, N)), M)), lambda n, m: int(min(0.6, 20 / n) * m)),
    "functions": (rounded("round", float_of("fadd", float_of("fsqrt", N, 1), float_of("flog", M, 1))), lambda n, m: round(math.sqrt(n) + math.log(m))),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_a_call_computes_as_python_does(name: str, rng: np.random.Generator) -> None:
    size, want = FORMULAS[name]
    assert parse(str(size)) == size and parse(str(without_hints(size))) == without_hints(size)
    assert typical(size) == want(8, 5) and is_symbolic(size)
    template = Template((size,))
    for _ in range(50):
        n, m = rng.integers(2, 5000, 2).tolist()
        values = {"s0": n, "s1": m}
        assert evaluate(size, values) == template(values)[0] == substituted(size, values) == want(n, m)
        there = substituted(size, {"s0": parse("t~3") * 2})
        assert evaluate(there, {"t": n, "s1": m}) == want(2 * n, m)


def test_bounds_of_rounded_floats() -> None:
    share, grown, half = FORMULAS["a share"][0], rounded("ceil", times(N, 1.3)), FORMULAS["to even"][0]
    assert at_most(share, N) and at_least(share) == 1 and not below(N, share)
    assert at_most(N, grown) and at_most(grown, 2 * N) and not at_most(grown, N)
    assert at_most(half, N) and at_most(0, half) and at_least(rounded("ceil", float_of("flog2", N, 1))) == 1
    assert not at_most(rounded("trunc", times(N - M, 0.7)), N - M)  # towards 0
    assert at_most(rounded("trunc", times(N * M, 0.5)), N * M)


def test_ints_below_0_are_written_and_compared() -> None:
    k = Size.of("k", -5, LOWEST, -1)
    assert parse(str(k)) == k and parse(str(2 * k + N)) == 2 * k + N and typical(k) == -5
    assert k < 0 and below(k, N) and N + k < N and at_most(k // 2, -1) and at_most(0, k % 3) and -k >= 1
    assert not at_most(0, N + k) and not below(N + k, 0)
    assert parse(str(without_hints(k))) == without_hints(Size.of("k", -7, LOWEST, -1))


def test_rounded_floats_are_shown() -> None:
    told = ["trunc(s0 * 0.7)", "floor(s0 * 0.3 * s1)", "round((s0 / 2))", "3*ceil(log2(s0)) + s1"]
    assert [readable(FORMULAS[name][0]) for name in ("a share", "of two", "to even", "digits")] == told


def test_expressions_of_torch_are_read_and_written() -> None:
    symbols = sympy.symbols("s0 s1", integer=True, positive=True)
    env = SimpleNamespace(var_to_range=dict.fromkeys(symbols))
    for name in ("a share", "to even", "digits", "a power", "a quotient", "bounded", "functions"):
        size, want = FORMULAS[name]
        written = expression_of(size, env)
        assert int(written.xreplace({s: sympy.Integer(v) for s, v in zip(symbols, (100, 37), strict=True)})) == want(100, 37)

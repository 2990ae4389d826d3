"""Compares arithmetic, proofs and texts of core/sizes with the same expressions on numbers."""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from lamina.core.sizes import (
    LEAST,
    Size,
    SizeLike,
    Undecided,
    at_most,
    below,
    divisor,
    evaluate,
    is_symbolic,
    maximum,
    minimum,
    parse,
    size_from_json,
    size_to_json,
    substituted,
    symbol_name,
    symbols_of,
    typical,
    with_symbol,
    without_hints,
)  # fmt: skip
from lamina.core.sizes.roots import root
from lamina.core.sizes.size import exact_quotient
from lamina.core.sizes.text import as_python, readable

HINTS = {"s0": 8, "s1": 128, "s2": 3}
A, B, C = (Size.of(name, hint) for name, hint in HINTS.items())
SEEDS = range(60)
Env = Mapping[str, int]


@dataclass(frozen=True)
class Twin:
    """A size, and the same expression on numbers."""

    size: SizeLike
    number: Callable[[Env], int]

    def holds(self, env: Env) -> bool:
        return evaluate(self.size, env) == self.number(env)


_OPS: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    (lambda a, b: a + b,) * 2, (lambda a, b: a - b,) * 2, (lambda a, b: a * b,) * 2, (minimum, min), (maximum, max),
]  # fmt: skip


def envs(values: range = range(LEAST, 10)) -> Iterator[dict[str, int]]:
    for numbers in itertools.product(values, repeat=len(HINTS)):
        yield dict(zip(HINTS, numbers, strict=True))


def draw(rng: random.Random, depth: int) -> Twin:
    """Returns a random expression. Divisors are sums of symbols and positive numbers."""
    if not depth or rng.random() < 0.15:
        if rng.random() < 0.4:
            k = rng.randrange(-3, 8)
            return Twin(k, lambda env: k)
        name = rng.choice(list(HINTS))
        return Twin(Size.of(name, HINTS[name]), lambda env: env[name])
    one = draw(rng, depth - 1)
    if rng.random() < 0.35:
        by = positive(rng)
        if rng.random() < 0.5:
            return Twin(one.size // by.size, lambda env: one.number(env) // by.number(env))
        return Twin(one.size % by.size, lambda env: one.number(env) % by.number(env))
    other = draw(rng, depth - 1)
    on_sizes, on_numbers = rng.choice(_OPS)
    return Twin(on_sizes(one.size, other.size), lambda env: on_numbers(one.number(env), other.number(env)))


def positive(rng: random.Random) -> Twin:
    """Returns a random polynomial above 0, of up to three terms."""
    terms = [(rng.randrange(1, 5), rng.sample(list(HINTS), rng.randrange(0, 3))) for _ in range(rng.randrange(1, 4))]

    def total(of: Callable[[str], Any]) -> Any:
        out: Any = 0
        for k, names in terms:
            part: Any = k
            for name in names:
                part = part * of(name)
            out = out + part
        return out

    return Twin(total(lambda name: Size.of(name, HINTS[name])), lambda env: int(total(lambda name: env[name])))


@pytest.mark.parametrize("seed", SEEDS)
def test_arithmetic_is_that_of_numbers(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        twin = draw(rng, rng.randrange(1, 5))
        assert all(twin.holds(env) for env in rng.sample(list(envs()), 60)), twin.size
        assert typical(twin.size) == twin.number(HINTS)


@pytest.mark.parametrize("seed", SEEDS)
def test_quotient_and_remainder_make_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        whole, by = draw(rng, 3), positive(rng)
        quotient, rest = divmod(whole.size, by.size)
        for env in rng.sample(list(envs()), 60):
            pair = (evaluate(quotient, env), evaluate(rest, env))
            assert pair == divmod(whole.number(env), by.number(env)), f"({whole.size}) / ({by.size}) at {env}"


@pytest.mark.parametrize("seed", SEEDS)
def test_products_divide_exactly(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        one, other = positive(rng).size, positive(rng).size
        assert divmod(one * other, other) == (one, 0)
        assert (one * other + 1) % one in (1, 0)
        assert 12 * one % 4 == 0 and divisor(12 * one) % 12 == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_comparisons_are_proofs(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        one, other = draw(rng, 3), draw(rng, 3)
        pairs = [(one.number(env), other.number(env)) for env in envs()]
        for compare in (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b):
            try:
                answer = compare(one.size, other.size)
            except Undecided:
                assert is_symbolic(one.size) or is_symbolic(other.size)
                continue
            assert all(compare(*pair) is answer for pair in pairs), f"{one.size} and {other.size}: {answer}"
        assert not below(one.size, other.size) or all(a < b for a, b in pairs)
        assert not at_most(one.size, other.size) or all(a <= b for a, b in pairs)
        if one.size == other.size:
            assert all(a == b for a, b in pairs)


def test_comparisons_that_sizes_need() -> None:
    """The least value of a symbol may prove a comparison; a hint alone proves nothing."""
    assert A > 1 and A >= LEAST and A + 1 > A and 2 * A > A and A * B >= 2 * B and A * 16 > 16 and A > 0
    assert A % 8 < 8 and A // 4 >= 0 and A % 4 * B >= 0 and -A < 0 and abs(-A) == A
    assert (
        maximum(1, A - 2) > A - 3
        and A // 4 <= A
        and A * 4 // 3 >= A
        and minimum(A, B) <= B
        and A % B < B
        and maximum(A, B) * C >= C * A
    )
    assert maximum(1, A - 2) * C > (A - 3) * C and A // 4 * 4 + 3 >= A
    for open_ in (
        lambda: A > 2,
        lambda: maximum(1, A - 2) > A - 2,
        lambda: A // 4 < A // 8 + 1,
        lambda: A < B,
        lambda: A - 1 < B - 1,
        lambda: A // 2 > 1,
        lambda: B > 100,
        lambda: A * A > B,
    ):
        with pytest.raises(Undecided, match="depends on the call"):
            open_()
    assert not below(A, B) and not at_most(A, B) and at_most(A, A) and below(A, A + 1)


def test_equal_polynomials_are_equal() -> None:
    assert A * B == B * A and hash(A * B) == hash(B * A)
    assert (A + B) * C == A * C + C * B and len({(A + B) * C, A * C + B * C, C * (B + A)}) == 1
    assert A - A == 0 and type(A - A) is int and A * 0 == 0 and A + 0 == A
    assert A != B and A != 8 and A * 2 != A and bool(A)
    assert A * 6 // 4 * 2 != A * 3
    assert (A * B + 4 * B) // (A + 4) == B and (6 * A + 9) % 3 == 0 and (A * 16 + 3) % 16 == 3
    assert A % A == 0 and A // A == 1 and 0 // A == 0 and 1 // A == 0 and 1 % A == 1
    for by_zero in (lambda: A // 0, lambda: A % (A - A)):
        with pytest.raises(ZeroDivisionError):
            by_zero()


def test_what_a_size_depends_on() -> None:
    assert symbols_of(7) == set() and symbols_of(A // (B + 3)) == {"s0", "s1"} and symbols_of(minimum(A, C) * 2) == {"s0", "s2"}
    assert (
        is_symbolic(A) and is_symbolic((1, (2, A))) and is_symbolic([1, A]) and not is_symbolic((1, 2)) and not is_symbolic("s0~8")
    )
    assert typical(A * B) == 1024 and typical(5) == 5 and evaluate(A * B + C, {"s0": 2, "s1": 3, "s2": 4}) == 10
    assert divisor(12 * A + 8) == 4 and divisor(A) == 1 and divisor(0) == 0 and divisor(-6) == 6
    with pytest.raises(KeyError):
        evaluate(A, {"s1": 3})


def test_minima_and_maxima() -> None:
    assert minimum(A, A + 1) == A and maximum(A, 1) == A and minimum(3, 5) == 3 and maximum(A * B, A, 2) == A * B
    assert (
        maximum(0, 64 - A) + minimum(A, 64) == 64
        and minimum(0, 64 - A) == minimum(64, A) - A
        and str(maximum(0, A - 64)) == "max(0, s0~8 - 64)"
    )
    open_ = minimum(A, B, 64)
    assert [evaluate(open_, {"s0": a, "s1": b}) for a, b in ((3, 5), (5, 3), (100, 100))] == [3, 3, 64]
    assert open_ <= 64 and open_ >= LEAST and open_ * 2 > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_and_json_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        size = draw(rng, 4).size
        again = parse(str(size))
        assert again == size and hash(again) == hash(size) and str(again) == str(size)
        assert size_from_json(size_to_json(size)) == size and type(size_from_json(size_to_json(size))) is type(size)


def test_a_symbol_may_have_another_least_value() -> None:
    n = Size.of("n", 8, 0)
    assert str(n * 2 + A) == "2*n~8>=0 + s0~8" and parse("2*n~8>=0 + s0~8") == n * 2 + A
    assert n >= 0 and n + 1 > 0 and n * A >= 0 and not at_most(1, n) and not below(0, n)
    assert without_hints(n) == Size.of("n", LEAST, 0) and as_python(n * A) == "n*s0" and readable(n - 1) == "n - 1"
    assert maximum(n, 1) != n and evaluate(maximum(n, 1), {"n": 0}) == 1


def test_texts() -> None:
    assert str(A * B * 2 + 1) == "2*s0~8*s1~128 + 1" and str(-A) == "-s0~8" and str(A * -3 - 1) == "-3*s0~8 - 1"
    assert parse("s0~8*16") == A * 16 and parse("3") == 3 and parse("max(s0~8, s1~128)") == maximum(A, B)
    assert parse("a_1~5") == Size.of("a_1", 5) and str(parse("a_1~5")) == "a_1~5"
    assert size_to_json(3) == 3 and size_to_json(A) == "s0~8"
    half = parse("(s0~8)/(2)")
    assert str(half * 2) == "2*((s0~8)/(2))" and readable(half * 2) == "s0" and readable(half + 1) == "s0/2 + 1"
    assert parse(str(half)) == half and as_python(half) == "(-(-(s0)//(2)))"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s0",
        "s0_8",
        "s0[8]",
        "s0~",
        "s0~x",
        "1.5",
        "s0~8 +",
        "s0~8**2",
        "max(s0~8)",
        "abs(s0~8)",
        "s0~8//0",
        "s0~8/0",
        "3/2",
        "s0~8/0",
        "3/2",
        "True",
        "'a'",
        "s0~8\0",
    ],
)
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse(text)


@pytest.mark.parametrize("data", [None, 1.5, True, [1], "s0~8**2"])
def test_data_that_are_no_sizes(data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        size_from_json(data)


def test_what_is_rounded_up_is_a_multiple() -> None:
    s = parse("s0~12")
    k = parse("k~4")
    assert at_most(0, s % k) and below(s % k, k) and (s - s % k) % k == 0 and (s + -s % k) % k == 0 and at_most(s, s + -s % k)
    assert (s - s % k) // k == s // k and [evaluate(s % k, {"s0": n, "k": 5}) for n in (2, 5, 9)] == [2, 0, 4]
    for padded, by in ((s + -s % 128, 128), (s + (7 - s % 7) % 7, 7), (s - s % 16, 16)):
        assert padded % by == 0 and by * (padded // by) == padded
        assert [evaluate(padded, {"s0": n}) % by for n in (2, 13, 127, 4097)] == [0] * 4
    assert at_most(128, s + -s % 128) and at_most(s, s + (7 - s % 7) % 7)
    assert at_most(0, s % 16) and below(s % 16, 16)


def test_a_size_that_is_one_symbol() -> None:
    s, t = parse("s0~24"), parse("s1~8")
    named = [
        s,
        4 * exact_quotient(s, 4),
        t * exact_quotient(s, t),
        4 * exact_quotient(t, 4) * exact_quotient(s, 4 * exact_quotient(t, 4)),
        7 * exact_quotient(s + 4, 7) - 4,
    ]
    assert {symbol_name(size) for size in named} == {"s0"}
    assert not any(map(symbol_name, (s + 1, 2 * s, s * t, 2 * exact_quotient(s, 4), s // 2 * 2, exact_quotient(s, 4), 3)))


def test_roots() -> None:
    s, t = parse("s0~36"), parse("s1~8")
    assert root(49) == 7 and root(4 * s * s * t * t) == 2 * s * t and root((s - 1) * (s - 1)) == s - 1
    side = (s - 3) // 2 + 1
    assert root(side * side) == side and root((s - 3) * (s - 3)) != s - 3 and root(s * s + 2 * s * t + t * t + 1) != s + t
    assert root(9 * s * s + 12 * s * t + 4 * t * t) == 3 * s + 2 * t and root(s * s * t) != s
    square = root(s) * root(s)
    assert root(square) == root(s) and symbol_name(square) == "s0" and not any(map(symbol_name, (root(s), square * s, root(s) * t)))
    assert parse(str(root(s + 1) * t)) == root(s + 1) * t and readable(root(s)) == "floor(sqrt(s0))" and typical(root(s)) == 6
    assert root(s) >= 1 and root(16 * s) >= 5 and substituted(root(s), {"s0": t * t}) == t and substituted(root(s), {"s0": 17}) == 4
    assert [evaluate(root(s), {"s0": n}) for n in (2, 99, 100, 2**52 - 1)] == [1, 9, 10, 2**26 - 1]


def test_quotients_have_the_smallest_divisors() -> None:
    s = parse("s0~24")
    assert (s - 1) // 2 + 1 == (s + 1) // 2 and (s - 3) % 4 == (s + 5) % 4 and (s + 9) // 4 == (s + 1) // 4 + 2
    assert (2 * s + 2) // 8 == (s + 1) // 4 and (s // 4 + 1) // 2 == (s + 4) // 8 and (6 * s) // 4 % 7 == (3 * s // 2) % 7


@pytest.mark.parametrize("n", [0, 1, 2, 3, 127, 1000])
def test_python_has_the_values_of_sizes(n: int) -> None:
    """Inexact quotients are rounded up: kernels for multiples are evaluated at other sizes too, and divisors that are quotients
    must not become 0."""
    s = Size.of("s0", 8, 0)
    quotient = exact_quotient(s, 4)
    for size in (
        quotient,
        3 * quotient - s + 2,
        maximum(1, minimum(s // 7, 5)),
        -(-s // 3) * (s % 5),
        root(s + 7),
        1024 // maximum(1, 4 * quotient),
    ):
        assert eval(as_python(size), {"s0": n, "isqrt": math.isqrt}) == evaluate(size, {"s0": n})
    assert evaluate(quotient, {"s0": n}) == -(-n // 4)


def test_a_symbol_for_a_product() -> None:
    """Replaces a product wherever it is a factor, with its powers and inside quotients, but none of its factors alone."""
    a, b, p = Size.of("a", 7), Size.of("b", 9), Size.of("p", 63)
    assert with_symbol(3 * a * b + a, a * b, p) == 3 * p + a
    assert with_symbol(a * a * b * b, a * b, p) == p * p
    assert with_symbol((a * b + 1) // 4, a * b, p) == (p + 1) // 4
    assert with_symbol(a + b, a * b, p) == a + b and with_symbol(5, a * b, p) == 5

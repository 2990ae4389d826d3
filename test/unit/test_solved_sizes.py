"""Tests what guards imply about sizes: fixed quotients, and divisors of sizes."""

from lamina.core.sizes import evaluate, parse, symbol_name, typical
from lamina.core.sizes.roots import root
from lamina.core.sizes.solved import learned_all, solve, substitute_known, with_equation


def test_guards_fix_quotients() -> None:
    patches = (parse("s0~224") - 16) // 16 + 1
    for equation in (patches - 14, patches * patches - 196, 3 * patches * patches + patches - 602):
        known = solve(equation)
        assert substitute_known(patches * 8 + 1, known) == 113 and substitute_known(patches // 2 + parse("s1~3"), known) == parse(
            "s1~3 + 7"
        )
        assert substitute_known((parse("s0~224") + 16) // 32, known) == 7
    below_zero = parse("s0~12") // 4 - 5
    assert solve(below_zero * below_zero - 4) == {}  # 3 and 7 are solutions
    assert solve(parse("s0~12 + s0~12//4 - 15")) == {} and solve(3) == {}


def test_equations_say_what_divides() -> None:
    s, t = parse("s0~24"), parse("s1~8")
    known = solve(s * t - 4 * (s // 4) * t)
    assert known == solve(s - s // 4 * 4) and substitute_known(s + 1, known) == parse("4*((s0~24)/(4)) + 1")
    assert [substitute_known(n, known) for n in (s % 4, s // 4 * 4 - s, -s % 4)] == [0, 0, 0]
    quarter = substitute_known(s // 4, known)
    assert (
        4 * quarter == substitute_known(s, known) and quarter >= 1 and typical(quarter) == 6 and evaluate(quarter, {"s0": 40}) == 10
    )
    both = solve(substitute_known(s - s // 6 * 6, known))  # by 4 and by 6
    assert substitute_known(4 * quarter, both) == parse("12*((s0~24)/(12))") and substitute_known(quarter, both) == parse(
        "3*((s0~24)/(12))"
    )
    assert substitute_known(quarter, known) == quarter
    patches = (s - 1) // 16
    even = solve(patches + 1 - (patches + 1) // 2 * 2)
    assert substitute_known(patches + 1, even) % 2 == 0 and substitute_known((patches + 1) // 2, even) * 2 == substitute_known(
        patches + 1, even
    )
    assert substitute_known(patches, even) >= 1
    by_another = solve(s % t)
    assert substitute_known(s, by_another) == t * substitute_known(s // t, by_another) and substitute_known(s // t, by_another) >= 1
    assert solve(s * t - s * t // 4 * 4) == {} and substitute_known(s + 4, solve(s + 4 - (s + 4) // 7 * 7)) % 7 == 0


def test_what_is_missing_to_a_multiple_of_a_number_may_be_nothing() -> None:
    """torch asks this for a padding of (4 - n % 4) % 4, at a size that needs none."""
    s = parse("s0~24")
    known = solve((4 - s % 4) % 4)
    assert (
        known == solve(s % 4)
        and symbol_name(substitute_known(s, known)) == "s0"
        and substitute_known((s + (4 - s % 4) % 4) // 4 * 4 - s, known) == 0
    )


def test_few_values_below_zero_are_no_solutions() -> None:
    side = (parse("s0~16") - 5) // 2 + 1
    known = solve(4 * side * side - 144)
    assert substitute_known(side, known) == 6 and substitute_known(36 // side, known) == 6
    assert solve(parse("s0~16 - 5") // 2 * (parse("s0~16 - 5") // 2 + 1) - 30) != {} and solve((side - 1) * (side + 1) - 35) != {}
    least = (parse("s0~4") - 3) // 2
    assert solve(least * (least + 1)) == {}  # -1 and 0 are


def test_equal_symbols_are_one() -> None:
    s, t = parse("s0~3"), parse("s1~3")
    known = with_equation({}, 8 * s * s, 8 * t * s)
    assert substitute_known(s, known) == substitute_known(t, known) and substitute_known(8 * t // s, known) == 8
    known, rest = learned_all({}, [(8 * s, 8 * s // t * t), (s * 3, t * s + 1), (8 * s // t, 8)])
    assert rest == [(s * 3, t * s + 1)]
    assert substitute_known(s, known) == substitute_known(t, known)
    assert solve(s - 2 * parse("s1~1")) == solve(s + t - 6) == {}


def test_equations_say_what_is_a_square() -> None:
    """torch asks this for a view that turns a row of pixels into an image."""
    n, t = parse("s0~36"), parse("s1~8")
    known = solve(n * t - root(n) * root(n) * t)
    side = substitute_known(root(n), known)
    assert (
        substitute_known(n, known) == side * side
        and substitute_known(n // side, known) == side
        and substitute_known(n % side, known) == 0
    )
    tokens = parse("s0~37 - 1")  # without that of the class
    known = solve(root(tokens) * root(tokens) - tokens)
    side = substitute_known(root(tokens), known)
    assert substitute_known(tokens, known) == side * side and symbol_name(substitute_known(tokens + 1, known)) == "s0"
    assert solve(n - root(n)) == {} and solve(n - root(t * 4 + 4) * root(n)) == {}


def test_a_remainder_and_a_quotient_make_a_multiple() -> None:
    """torch asks this for a view that splits rows into windows."""
    rows = (parse("s0~50") - 3) // 2 + 1
    windows = rows // 4
    known = with_equation(with_equation({}, rows % windows, 0), rows // windows, 4)
    assert substitute_known(rows, known) == 4 * substitute_known(windows, known) and substitute_known(rows % 4, known) == 0


def test_a_number_divides_a_sum() -> None:
    """torch asks this for a view of a concatenation, and where there is a remainder."""
    s, t, k = parse("s0~24"), parse("s1~9"), parse("k~-23>=-9223372036854775808<=-1")
    for equation, whole in (((s + t) % 3, s + t), (s * 2 + t - (2 * s + t) // 3 * 3, 2 * s + t)):
        known = solve(equation)
        there = [substitute_known(n, known) for n in (s, t, whole)]
        assert (
            there[2] % 3 == 0
            and 3 * substitute_known(whole // 3, known) == there[2]
            and {symbol_name(n) for n in there[:2]} == {"s0", "s1"}
        )
        assert all(n >= 2 and substitute_known(n, known) == n for n in there[:2])
        assert [evaluate(n, {"s0": 9, "s1": 15}) for n in there[:2]] == [9, 15]
    known = solve(k - s * (k // s) - 1)  # of 24 rows, -23: one is left
    assert (
        substitute_known(k % s, known) == 1
        and symbol_name(substitute_known(k, known)) == "k"
        and evaluate(substitute_known(k, known), {"k": -8, "s0": 9}) == -8
    )
    assert solve(k - s * (k // s) - s) == {} and solve(s * t + s * 4 - (s * t + s * 4) // 5 * 5) == {}

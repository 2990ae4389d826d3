"""Tests what guards imply about sizes: fixed quotients, and divisors of sizes."""

from lamina.core.sizes import evaluate, parse, symbol_name, typical
from lamina.core.sizes.roots import root
from lamina.core.sizes.solved import learned, learned_all, replaced, solved


def test_guards_fix_quotients() -> None:
    patches = (parse("s0~224") - 16) // 16 + 1
    for equation in (patches - 14, patches * patches - 196, 3 * patches * patches + patches - 602):
        known = solved(equation)
        assert replaced(patches * 8 + 1, known) == 113 and replaced(patches // 2 + parse("s1~3"), known) == parse("s1~3 + 7")
        assert replaced((parse("s0~224") + 16) // 32, known) == 7
    below_zero = parse("s0~12") // 4 - 5
    assert solved(below_zero * below_zero - 4) == {}  # 3 and 7 are solutions
    assert solved(parse("s0~12 + s0~12//4 - 15")) == {} and solved(3) == {}


def test_equations_say_what_divides() -> None:
    s, t = parse("s0~24"), parse("s1~8")
    known = solved(s * t - 4 * (s // 4) * t)
    assert known == solved(s - s // 4 * 4) and replaced(s + 1, known) == parse("4*((s0~24)/(4)) + 1")
    assert [replaced(n, known) for n in (s % 4, s // 4 * 4 - s, -s % 4)] == [0, 0, 0]
    quarter = replaced(s // 4, known)
    assert 4 * quarter == replaced(s, known) and quarter >= 1 and typical(quarter) == 6 and evaluate(quarter, {"s0": 40}) == 10
    both = solved(replaced(s - s // 6 * 6, known))  # by 4 and by 6
    assert replaced(4 * quarter, both) == parse("12*((s0~24)/(12))") and replaced(quarter, both) == parse("3*((s0~24)/(12))")
    assert replaced(quarter, known) == quarter
    patches = (s - 1) // 16
    even = solved(patches + 1 - (patches + 1) // 2 * 2)
    assert replaced(patches + 1, even) % 2 == 0 and replaced((patches + 1) // 2, even) * 2 == replaced(patches + 1, even)
    assert replaced(patches, even) >= 1
    by_another = solved(s % t)
    assert replaced(s, by_another) == t * replaced(s // t, by_another) and replaced(s // t, by_another) >= 1
    assert solved(s * t - s * t // 4 * 4) == {} and replaced(s + 4, solved(s + 4 - (s + 4) // 7 * 7)) % 7 == 0


def test_what_is_missing_to_a_multiple_of_a_number_may_be_nothing() -> None:
    """torch asks this for a padding of (4 - n % 4) % 4, at a size that needs none."""
    s = parse("s0~24")
    known = solved((4 - s % 4) % 4)
    assert (
        known == solved(s % 4)
        and symbol_name(replaced(s, known)) == "s0"
        and replaced((s + (4 - s % 4) % 4) // 4 * 4 - s, known) == 0
    )


def test_few_values_below_zero_are_no_solutions() -> None:
    side = (parse("s0~16") - 5) // 2 + 1
    known = solved(4 * side * side - 144)
    assert replaced(side, known) == 6 and replaced(36 // side, known) == 6
    assert solved(parse("s0~16 - 5") // 2 * (parse("s0~16 - 5") // 2 + 1) - 30) != {} and solved((side - 1) * (side + 1) - 35) != {}
    least = (parse("s0~4") - 3) // 2
    assert solved(least * (least + 1)) == {}  # -1 and 0 are


def test_equal_symbols_are_one() -> None:
    s, t = parse("s0~3"), parse("s1~3")
    known = learned({}, 8 * s * s, 8 * t * s)
    assert replaced(s, known) == replaced(t, known) and replaced(8 * t // s, known) == 8
    known, rest = learned_all({}, [(8 * s, 8 * s // t * t), (s * 3, t * s + 1), (8 * s // t, 8)])
    assert rest == [(s * 3, t * s + 1)]
    assert replaced(s, known) == replaced(t, known)
    assert solved(s - 2 * parse("s1~1")) == solved(s + t - 6) == {}


def test_equations_say_what_is_a_square() -> None:
    """torch asks this for a view that turns a row of pixels into an image."""
    n, t = parse("s0~36"), parse("s1~8")
    known = solved(n * t - root(n) * root(n) * t)
    side = replaced(root(n), known)
    assert replaced(n, known) == side * side and replaced(n // side, known) == side and replaced(n % side, known) == 0
    tokens = parse("s0~37 - 1")  # without that of the class
    known = solved(root(tokens) * root(tokens) - tokens)
    side = replaced(root(tokens), known)
    assert replaced(tokens, known) == side * side and symbol_name(replaced(tokens + 1, known)) == "s0"
    assert solved(n - root(n)) == {} and solved(n - root(t * 4 + 4) * root(n)) == {}


def test_a_remainder_and_a_quotient_make_a_multiple() -> None:
    """torch asks this for a view that splits rows into windows."""
    rows = (parse("s0~50") - 3) // 2 + 1
    windows = rows // 4
    known = learned(learned({}, rows % windows, 0), rows // windows, 4)
    assert replaced(rows, known) == 4 * replaced(windows, known) and replaced(rows % 4, known) == 0


def test_a_number_divides_a_sum() -> None:
    """torch asks this for a view of a concatenation, and where there is a remainder."""
    s, t, k = parse("s0~24"), parse("s1~9"), parse("k~-23>=-9223372036854775808<=-1")
    for equation, whole in (((s + t) % 3, s + t), (s * 2 + t - (2 * s + t) // 3 * 3, 2 * s + t)):
        known = solved(equation)
        there = [replaced(n, known) for n in (s, t, whole)]
        assert (
            there[2] % 3 == 0
            and 3 * replaced(whole // 3, known) == there[2]
            and {symbol_name(n) for n in there[:2]} == {"s0", "s1"}
        )
        assert all(n >= 2 and replaced(n, known) == n for n in there[:2])
        assert [evaluate(n, {"s0": 9, "s1": 15}) for n in there[:2]] == [9, 15]
    known = solved(k - s * (k // s) - 1)  # of 24 rows, -23: one is left
    assert (
        replaced(k % s, known) == 1
        and symbol_name(replaced(k, known)) == "k"
        and evaluate(replaced(k, known), {"k": -8, "s0": 9}) == -8
    )
    assert solved(k - s * (k // s) - s) == {} and solved(s * t + s * 4 - (s * t + s * 4) // 5 * 5) == {}

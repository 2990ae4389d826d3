"""Tests index arithmetic over axes: every quotient and remainder against integers, and which axis must be split."""

import itertools
import math

import pytest

from lamina.passes.ir.affine import Affine, Axis, NotAffine, SplitAxis, offset, refine, row_major, unflatten

A, B, C = Axis(3, "a"), Axis(4, "b"), Axis(5, "c")


def value(at: Affine, where: dict[Axis, int]) -> int:
    return at.constant + sum(c * where[axis] for axis, c in at.terms)


def everywhere(*axes: Axis) -> list[dict[Axis, int]]:
    return [dict(zip(axes, at, strict=True)) for at in itertools.product(*(range(a.extent) for a in axes))]


def test_sums_are_equal_in_any_order() -> None:
    a, b = Affine.of(A, 20) + Affine.of(B, 5) + 7, Affine.of(B, 5) + 7 + Affine.of(A, 20)
    assert a == b and hash(a) == hash(b)
    assert a + a == a * 2 and a + a * -1 == Affine() and a * 0 == Affine()
    assert (a + Affine.of(B, -5)).coefficient(B) == 0 and a.coefficient(A) == 20


def test_terms_of_sums_are_in_the_order_in_which_they_were_made() -> None:
    before = [Axis(2) for _ in range(100)]
    del before[::2]  # the next axes are in the places of these
    axes = [Axis(2, str(i)) for i in range(100)]
    total = sum(map(Affine.of, reversed(axes)), Affine())
    assert [axis for axis, _ in total.terms] == axes


def test_an_axis_of_one_iteration_is_zero() -> None:
    assert Affine.of(Axis(1)) == Affine() == Affine.of(A, 0)


def test_bounds() -> None:
    at = Affine.of(A, 20) + Affine.of(B, -5) + 7
    values = [value(at, where) for where in everywhere(A, B)]
    assert at.bounds() == (min(values), max(values)) == (-8, 47)


@pytest.mark.parametrize("k", [1, 5, 20, 60, 1000])
def test_divmod_where_it_is_affine(k: int) -> None:
    at = Affine.of(A, 20) + Affine.of(B, 5) + Affine.of(C)
    quotient, remainder = at.divmod(k)
    for where in everywhere(A, B, C):
        assert divmod(value(at, where), k) == (value(quotient, where), value(remainder, where))


def test_divmod_names_the_axis_to_split() -> None:
    flat = Axis(12, "flat")
    with pytest.raises(SplitAxis, match="split flat<12> by 4") as caught:
        Affine.of(flat).divmod(4)
    assert caught.value.axis is flat and caught.value.inner == 4
    outer, inner = Axis(3), Axis(4)
    at = Affine.of(flat).rename({flat: Affine.of(outer, 4) + Affine.of(inner)})
    assert at.divmod(4) == (Affine.of(outer), Affine.of(inner))


@pytest.mark.parametrize("at", [Affine.of(Axis(10)), Affine.of(A, -1), Affine.of("a run-time index")])
def test_divmod_that_is_not_affine(at: Affine) -> None:
    with pytest.raises(NotAffine):
        at.divmod(4)


def test_unflatten_inverts_offset() -> None:
    shape = (3, 4, 5)
    index = tuple(map(Affine.of, (A, B, C)))
    assert row_major(shape) == (20, 5, 1)
    assert unflatten(offset(index, row_major(shape)), shape) == index
    assert unflatten(Affine(), ()) == () and row_major((2, 0, 3)) == (3, 3, 1)


@pytest.mark.parametrize(
    ("shapes", "want"),
    [
        ([(12,), (3, 4)], (3, 4)),
        ([(2, 6), (4, 3)], (2, 2, 3)),
        ([(6, 4), (2, 3, 4), (24,)], (2, 3, 4)),
        ([(2, 3), (3, 2)], None),
        ([()], (1,)),
        ([(0, 3), (0, 3)], (0, 3)),
        ([(0, 3), (3, 0)], None),
    ],
)
def test_refine(shapes: list[tuple[int, ...]], want: tuple[int, ...] | None) -> None:
    assert refine(shapes) == want
    assert want is None or math.prod(want) == math.prod(shapes[0])

"""Tests the rows and columns that passes/space/space.py finds for handwritten kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch_mlir import ir

from lamina.dialects import context
from lamina.passes.ir.affine import Affine, Axis, row_major
from lamina.passes.ir.reading import Untraceable, shape_of
from lamina.passes.space.space import Space, find_space, index_over_axes

MAPS = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
"""
SUM = """
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>"""
LESS = """
  %o = tensor.empty() : tensor<4x6xf32>
  %less = linalg.generic {indexing_maps = [#id, #map, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %value : tensor<4x6xf32>, tensor<NxF32>) outs(%o : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x6xf32>"""


def less(value: str, map_: str, n: int) -> str:
    return LESS.replace("%value", value).replace("#map", map_).replace("NxF32", f"{n}xf32")


@contextmanager
def space(arguments: str, results: dict[str, str], text: str) -> Iterator[Space]:
    """results: their types by name."""
    types = ", ".join(results.values())
    returned = f"return {', '.join(results)} : {types}"
    with context(), ir.Location.unknown():
        module = ir.Module.parse(f"{MAPS}func.func @k({arguments}) -> ({types}) {{\n{text}\n{returned}\n}}")
        block = next(iter(module.body.operations)).regions[0].blocks[0]
        outs = list(list(block.operations)[-1].operands)
        yield find_space(block, {a: row_major(shape_of(a)) for a in block.arguments}, [row_major(shape_of(v)) for v in outs])


def extents(axes: tuple[Axis, ...]) -> list[int]:
    return [a.extent for a in axes]


def test_a_row_and_what_is_made_of_its_sum() -> None:
    results = {"%less": "tensor<4x6xf32>", "%sum": "tensor<4xf32>"}
    with space("%x: tensor<4x6xf32>", results, SUM + less("%sum", "#row", 4)) as found:
        assert extents(found.rows) == [4] and extents(found.columns) == [6]
        row, column = found.rows[0], found.columns[0]
        full, sums = found.results
        assert full.full and full.offset == Affine.of(row, 6) + Affine.of(column)
        assert not sums.full and sums.offset == Affine.of(row)
        assert list(found.reductions) == [sums.expr] and found.reductions[0].axes == (column,)
        assert Affine.of(row, 6) + Affine.of(column) in found.places()


def test_without_reductions_every_axis_is_a_row() -> None:
    with space("%x: tensor<4x6xf32>, %y: tensor<6xf32>", {"%less": "tensor<4x6xf32>"}, less("%y", "#col", 6)) as found:
        assert extents(found.rows) == [4, 6] and not found.columns and not found.reductions
        assert found.results[0].dtype == "f32" and not found.results[0].full


@pytest.mark.parametrize(
    ("groups", "type_", "rows"), [("[[0, 1]]", "tensor<24xf32>", [4, 6]), ("[[0, 1], [2]]", "tensor<12x2xf32>", [4, 3, 2])]
)
def test_reshapes_split_axes(groups: str, type_: str, rows: list[int]) -> None:
    whole = less("%y", "#col", 6)
    if groups == "[[0, 1]]":
        text = whole + f"\n%r = tensor.collapse_shape %less {groups} : tensor<4x6xf32> into {type_}"
    else:
        text = whole + (
            "\n%t = tensor.expand_shape %less [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf32> into tensor<4x3x2xf32>"
            f"\n%r = tensor.collapse_shape %t {groups} : tensor<4x3x2xf32> into {type_}"
        )
    with space("%x: tensor<4x6xf32>, %y: tensor<6xf32>", {"%r": type_}, text) as found:
        assert extents(found.rows) == rows
        assert found.results[0].offset.bounds() == (0, 23)


def test_a_sum_that_every_column_needs_again_is_refused() -> None:
    square = (SUM + less("%sum", "#col", 4)).replace("4x6", "4x4")
    with pytest.raises(Untraceable), space("%x: tensor<4x4xf32>", {"%less": "tensor<4x4xf32>"}, square):
        pass


def test_results_of_different_sizes_are_refused() -> None:
    with (
        pytest.raises(Untraceable, match="different sizes"),
        space(
            "%x: tensor<4x6xf32>, %y: tensor<6xf32>",
            {"%less": "tensor<4x6xf32>", "%e": "tensor<5xf32>"},
            less("%y", "#col", 6) + "\n%e = tensor.empty() : tensor<5xf32>",
        ),
    ):
        pass


def test_spread() -> None:
    a, b, c = Axis(2, "a"), Axis(3, "b"), Axis(4, "c")
    assert index_over_axes((6, 4), [a, b, c]) == (Affine.of(a, 3) + Affine.of(b), Affine.of(c))
    assert index_over_axes((2, 1, 12), [a, b, c]) == (Affine.of(a), Affine(), Affine.of(b, 4) + Affine.of(c))
    assert index_over_axes((4, 6), [a, b, c]) is None
    assert index_over_axes((6,), [a, b, c]) is None
    assert index_over_axes((), []) == ()

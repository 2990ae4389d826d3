"""Tests the expressions of passes/trace/trace.py: evaluates them and compares with numbers computed by hand."""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from torch_mlir import ir

from lamina.dialects import context
from lamina.passes.ir.affine import Affine, Axis, SplitAxis
from lamina.passes.ir.expressions import Apply, Const, Expr, InBounds, Load, Position, Reduce, Scan
from lamina.passes.ir.guards import Bound
from lamina.passes.ir.reading import Untraceable, bytes_of
from lamina.passes.trace.trace import Tracer

Index = tuple[int, ...]
APPLIED: dict[str, Callable[..., Any]] = {
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.negf": operator.neg,
    "arith.sitofp": float,
    "arith.select": lambda c, a, b: a if c else b,
    "arith.divui": operator.floordiv,
    "arith.remui": operator.mod,
}  # fmt: skip


def place(at: Affine, where: dict[Axis, int]) -> int:
    return at.constant + sum(c * (where[t] if isinstance(t, Axis) else computed(t, where)) for t, c in at.terms)


def holds(guard: tuple[Bound, ...], where: dict[Axis, int]) -> bool:
    return all(b.low <= place(b.index, where) < b.high for b in guard)


def computed(e: Expr, where: dict[Axis, int]) -> Any:
    """An expression's value at this place of the axes. Element k of every argument is 10 ** (number of the argument) * (k + 1)."""
    match e:
        case Const():
            return e.value
        case Position():
            return place(e.index, where)
        case InBounds():
            return holds(e.guard, where)
        case Load():
            return 10 ** ir.BlockArgument(e.tensor).arg_number * (place(e.offset, where) + 1) if holds(e.guard, where) else 0
        case Apply():
            return APPLIED[e.op](*(computed(x, where) for x in e.operands))
        case Reduce(axes=(axis,)):
            return sum(computed(e.arg, {**where, axis: i}) for i in range(axis.extent))
        case Scan():
            total = 0
            for i in range(where[e.axis] + 1):
                here = {**where, e.axis: i}
                total = total * (computed(e.decay, here) if e.decay else 1) + computed(e.arg, here)
            return total
    raise AssertionError(e)


@contextmanager
def body(arguments: str, result: str, text: str) -> Iterator[ir.Value]:
    """What a function of this body returns."""
    maps = "#id = affine_map<(d0, d1) -> (d0, d1)>\n#row = affine_map<(d0, d1) -> (d0)>\n#t = affine_map<(d0, d1) -> (d1, d0)>\n"
    with context(), ir.Location.unknown():
        module = ir.Module.parse(f"{maps}func.func @main({arguments}) -> {result} {{\n{text}\nreturn %r : {result}\n}}")
        main = next(iter(module.body.operations))
        yield list(main.regions[0].blocks[0].operations)[-1].operands[0]


def elements(value: ir.Value, *extents: int, tracer: Tracer | None = None) -> list[Any]:
    """Every element, in order."""
    axes = [Axis(n, f"a{i}") for i, n in enumerate(extents)]
    e = (tracer or Tracer()).element(value, tuple(map(Affine.of, axes)))
    places: list[dict[Axis, int]] = [{}]
    for axis in axes:
        places = [{**where, axis: i} for where in places for i in range(axis.extent)]
    return [computed(e, where) for where in places]


POINTWISE = """
  %o = tensor.empty() : tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#id, #t, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<2x3xf32>, tensor<3x2xf32>) outs(%o : tensor<2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %s = arith.addf %a, %b : f32
    %p = arith.mulf %s, %f : f32
    linalg.yield %p : f32
  } -> tensor<2x3xf32>"""


def test_a_generic_reads_by_its_maps_and_knows_where_it_is() -> None:
    with body("%x: tensor<2x3xf32>, %y: tensor<3x2xf32>", "tensor<2x3xf32>", POINTWISE) as r:
        assert elements(r, 2, 3) == [0, 32, 106, 0, 45, 132]  # (x[i, j] + y[j, i]) * j


def test_views_are_arithmetic_of_indices() -> None:
    text = """
      %e = tensor.empty() : tensor<3x4xf32>
      %t = linalg.transpose ins(%x : tensor<4x3xf32>) outs(%e : tensor<3x4xf32>) permutation = [1, 0]
      %s = tensor.extract_slice %t[1, 0] [2, 2] [1, 2] : tensor<3x4xf32> to tensor<2x2xf32>
      %r = tensor.collapse_shape %s [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>"""
    with body("%x: tensor<4x3xf32>", "tensor<4xf32>", text) as r:
        tracer, sliced = Tracer(), r.owner.operands[0]
        assert elements(sliced, 2, 2, tracer=tracer) == [2, 8, 3, 9]
        assert sliced in tracer.computed()
        with pytest.raises(SplitAxis) as caught:
            elements(r, 4)
        assert caught.value.inner == 2


def test_memory_is_read_by_its_strides() -> None:
    with body("%x: tensor<2x3xf32>, %y: tensor<3x2xf32>", "tensor<2x3xf32>", POINTWISE) as r:
        tracer = Tracer(strides_of=lambda v: (1, 2))
        assert elements(r, 2, 3, tracer=tracer) == [0, (3 + 20) * 1, (5 + 30) * 2, 0, (4 + 40) * 1, (6 + 50) * 2]


REDUCED = """
  %c = arith.constant {start} : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %r = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<2x3xf32>) outs(%f : tensor<2xf32>) {{
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  }} -> tensor<2xf32>"""


@pytest.mark.parametrize(("start", "want"), [("0.0", [6, 15]), ("2.5", [8.5, 17.5])])
def test_a_reduction_starts_where_it_is_told(start: str, want: list[float]) -> None:
    with body("%x: tensor<2x3xf32>", "tensor<2xf32>", REDUCED.format(start=start)) as r:
        assert elements(r, 2) == want


def test_what_is_padded_concatenated_and_inserted_is_guarded() -> None:
    pad = """
      %c = arith.constant 7.0 : f32
      %p = tensor.pad %x low[1] high[1] {
      ^bb0(%i: index):
        tensor.yield %c : f32
      } : tensor<2xf32> to tensor<4xf32>
      %k = tensor.concat dim(0) %p, %y : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>
      %r = tensor.insert_slice %x into %k[4] [2] [1] : tensor<2xf32> into tensor<6xf32>"""
    with body("%x: tensor<2xf32>, %y: tensor<2xf32>", "tensor<6xf32>", pad) as r:
        assert elements(r, 6) == [7, 1, 2, 7, 1, 2]
        assert elements(r.owner.operands[1], 6) == [7, 1, 2, 7, 10, 20]


SCAN = '%r = "graph.scan"(%x) {combine = "arith.addf", dim = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>'
RECURRENCE = '%r = "graph.scan"(%x, %y) {combine = "arith.addf", dim = 0 : i64} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>'


def test_a_scan() -> None:
    with body("%x: tensor<4xf32>", "tensor<4xf32>", SCAN) as r:
        assert elements(r, 4) == [1, 3, 6, 10]


def test_a_recurrence() -> None:
    with body("%x: tensor<3xf32>, %y: tensor<3xf32>", "tensor<3xf32>", RECURRENCE) as r:
        assert elements(r, 3) == [1, 1 * 20 + 2, (1 * 20 + 2) * 30 + 3]


@pytest.mark.parametrize(
    ("arguments", "text", "why"),
    [
        ("%x: tensor<4xf32>", "%r = \"graph.extern\"(%x) {callee = \"aten.sort\"} : (tensor<4xf32>) -> tensor<4xf32>", "in memory"),
        ("%x: tensor<4xf32>", "%r = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>", "in memory"),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_says_why(arguments: str, text: str, why: str) -> None:
    with body(arguments, "tensor<4xf32>", text) as r, pytest.raises(Untraceable, match=why):
        elements(r, 4)


def test_equal_elements_are_one_expression() -> None:
    with body("%x: tensor<2x3xf32>, %y: tensor<3x2xf32>", "tensor<2x3xf32>", POINTWISE) as r:
        tracer, index = Tracer(), (Affine.of(Axis(2)), Affine.of(Axis(3)))
        assert tracer.element(r, index) is tracer.element(r, index)
        assert isinstance(Tracer(is_memory=lambda _: True).element(r, index), Load)


TAKEN = """
      %o = tensor.empty() : tensor<3xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
          ins(%i : tensor<3xi64>) outs(%o : tensor<3xf32>) {
      ^bb0(%a: i64, %out: f32):
        %at = arith.index_cast %a : i64 to index
        %v = tensor.extract %x[%at] : tensor<5xf32>
        linalg.yield %v : f32
      } -> tensor<3xf32>"""


def test_an_index_from_a_tensor_is_checked() -> None:
    with body("%x: tensor<5xf32>, %i: tensor<3xi64>", "tensor<3xf32>", TAKEN) as r:
        e = Tracer().element(r, (Affine.of(Axis(3)),))
        assert isinstance(e, Load) and [b.message for b in e.guard] == ["index out of range: expected 0 <= index < 5"]


def test_an_index_into_a_computed_tensor_is_checked() -> None:
    text = """
      %t = tensor.empty() : tensor<5xf32>
      %x = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%t : tensor<5xf32>) {
      ^bb0(%out: f32):
        %n = linalg.index 0 : index
        %m = arith.index_cast %n : index to i64
        %v = arith.sitofp %m : i64 to f32
        linalg.yield %v : f32
      } -> tensor<5xf32>"""
    with body("%i: tensor<3xi64>", "tensor<3xf32>", text + TAKEN) as r:
        e = Tracer().element(r, (Affine.of(Axis(3)),))
        assert isinstance(e, Apply) and isinstance(e.operands[0], InBounds)
        assert [b.message for b in e.operands[0].guard] == ["index out of range: expected 0 <= index < 5"]


@pytest.mark.parametrize(("dtype", "size"), [("f8E4M3FN", 1), ("i1", 1), ("bf16", 2), ("f32", 4), ("f64", 8), ("index", 8)])
def test_bytes_of_a_tensor(dtype: str, size: int) -> None:
    with context(), ir.Location.unknown():
        tensor = ir.RankedTensorType.get([4, 6], ir.IndexType.get() if dtype == "index" else ir.Type.parse(dtype))
        module = ir.Module.parse(f"func.func @f(%x: {tensor}) {{ return }}")
        assert bytes_of(module.body.operations[0].regions[0].blocks[0].arguments[0]) == 24 * size

"""Imports an FX graph (aten) as linalg on tensors; everything that does not lower becomes a call of a private function.

func.func @main(%arg0: tensor<4x8xf32>, ...) -> tensor<4x8xf32>
  ... linalg, tensor, arith, math ...
  %5 = call @extern_0(%4, %arg1) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
func.func private @extern_0(...) -> ... attributes {graph.callee = "aten.mm.default", graph.reason = "library", ...}
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch_mlir import ir
from torch_mlir.dialects import func
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import TORCH_DTYPE_TO_MLIR_TYPE, ContextCache, FxImporter, FxImporterHooks, GraphNodeImporter

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.sizes import Size
from lamina.dialects import context
from lamina.dialects.combining import COMBINE, LOG_SUM
from lamina.passes.fusion.scatter import COMBINED
from lamina.passes.ir.reading import SCAN as SCAN_OP
from lamina.passes.ir.reading import SORT as SORT_OP
from lamina.passes.simplify.demote_f64 import ASKED
from lamina.passes.simplify.import_ops import CHECK as CHECK_MARK
from lamina.passes.simplify.import_ops import RANDOM

from ..decompositions.half import HALF
from ..fx import support
from ..fx.dtypes import REAL
from ..fx.locations import origin_of, source_of, where
from ..fx.ops.check_op import CHECK
from ..fx.ops.scan_op import SCAN
from ..fx.ops.sort_op import SORT
from ..fx.random_bits import BITS
from ..fx.sizes import exact_sizes, is_sized
from . import externs, linalg
from .narrow import widen_narrow
from .selects import spread_chosen
from .size_numbers import sizes_as_tensors
from .sized import STRICT, is_move, move_attributes, open_sizes
from .strided import rewrite_strided
from .torch_mlir_workarounds import repair
from .uniform import fold_uniform
from .windows import rewrite_windows


class _TypesAndLocations(ContextCache):
    """Makes the types of tensors and the locations of ops: `loc("aten.x"("file.py":line:0))`. A node that came from a decomposed op
    of the model has that op's name around it: `loc("aten.gelu.default"("aten.erf.default"("file.py":line:0)))`.

    u64, which torch-mlir lacks, gets the type of i64: it is only passed from call to call (see externs).
    """

    def dtype_to_type(self, dtype: torch.dtype) -> ir.Type:
        """Returns the type of elements; torch-mlir has none for uint64, which lies in memory as int64."""
        return super().dtype_to_type(torch.int64 if dtype is torch.uint64 else dtype)

    def get_vtensor_type(self, shape: torch.Size, dtype: torch.dtype, **kwargs: Any) -> ir.Type:
        """Returns the type of a tensor; complex numbers are real ones with a last dimension of two."""
        if dtype in REAL:
            shape, dtype, kwargs = (*shape, 2), REAL[dtype], {}
        return super().get_vtensor_type(shape, dtype, **kwargs)

    def format_asm_shape(self, shape: torch.Size) -> str:
        """Writes a shape; a size that the graph's guards fix is a number, others are unknown."""
        return ",".join("?" if isinstance(n, Size) else str(n) for n in exact_sizes(shape))

    def get_node_location(self, node: fx.Node) -> ir.Location:
        """Returns the location of the ops that a node becomes."""
        source = source_of(node)
        inner = ir.Location.file(*source, 0, context=self._c) if source else ir.Location.unknown(self._c)
        if node.op != "call_function":
            return inner
        named = ir.Location.name(str(node.target), inner, context=self._c)
        origin = origin_of(node)
        return ir.Location.name(origin, named, context=self._c) if origin else named


class _Nodes(GraphNodeImporter):
    """Emits the nodes chosen as external calls as `func.call`s."""

    def _import_argument(self, loc: ir.Location, arg: Any, expected_jit_type: Any = None) -> ir.Value:
        """Imports a constant at its first use only; torch-mlir would import it at each."""
        if isinstance(arg, fx.Node) and arg.op == "get_attr" and (arg, 0) in self._v:
            return self.resolve_node_value(arg)
        return super()._import_argument(loc, arg, expected_jit_type)

    def _import_torch_op_overload(self, loc: ir.Location, node: fx.Node, concrete_target: Any = None) -> None:
        """Imports a call of an op: as torch-mlir does, or as a call of a private function where that does not lower it."""
        if (marked := _MARKED.get(node.target)) is not None:
            given = [self._import_argument(loc, arg) for arg in node.args if isinstance(arg, fx.Node)]
            with loc:
                name, attributes = marked
                made = self.fx_importer.private(name, attributes(node) | open_sizes(node), given, [self._cc.node_val_to_type(node)])
            self.bind_node_value(node, made.results[0])
            return
        if node.target in support.SAME_MEMORY:
            self.bind_node_value(node, self._import_argument(loc, node.args[0]))
            return
        reason = self.fx_importer.reasons.get(node)
        if reason is None and is_move(node):
            self._move(loc, node)
            return
        if reason is None:
            super()._import_torch_op_overload(loc, node, concrete_target)
            if makes_f64(node):
                self._keep_f64(loc, node)
            return
        values, template = externs.template(node)
        operands = [self._import_argument(loc, value) for value in values]
        results = externs.tensor_results(node)
        with loc:
            types = [self._cc.value_info_to_type(t) for t in results if t is not None]
            call = self.fx_importer.call(node, reason, operands, types, template)
        if externs.is_single(node):
            self.bind_node_value(node, call.results[0])
            return
        self._multi_result_nodes.add(node)
        tensors = iter(call.results)
        for i, tensor in enumerate(results):
            if tensor is not None:
                self.bind_node_value(node, next(tensors), i)

    def _move(self, loc: ir.Location, node: fx.Node) -> None:
        values, template = externs.template(node)
        operands = [self._import_argument(loc, value) for value in values]
        with loc:
            moved = self.fx_importer.private(
                "move", move_attributes(node, template), operands, [self._cc.value_info_to_type(node.meta["val"])]
            )
        self.bind_node_value(node, moved.results[0])
        if makes_f64(node):
            self._keep_f64(loc, node)

    def _keep_f64(self, loc: ir.Location, node: fx.Node) -> None:
        """Passes the node's result through a call that keeps it f64 (see lamina-demote-f64)."""
        value = self.resolve_node_value(node)
        with loc:
            kept = self.fx_importer.private("f64", {ASKED: ir.UnitAttr.get()}, [value], [value.type])
        self._v[(node, 0)] = kept.results[0]


class _Literals(FxImporterHooks):
    """Emits tensor constants as dense attributes, which every pass can read; large ones are arguments by now (see normalize)."""

    def resolve_literal(self, gni: GraphNodeImporter, literal: Any, info: Any) -> ir.Value | None:
        """Emits a tensor as `torch.vtensor.literal`, half types as f32 with a cast."""
        if not isinstance(literal, Tensor):
            return None
        dtype = literal.dtype
        data = literal.detach().to(torch.float32 if dtype in HALF else dtype).contiguous().cpu().numpy()
        element = TORCH_DTYPE_TO_MLIR_TYPE[torch.float32 if dtype in HALF else dtype]()
        value = ir.DenseElementsAttr.get(data, type=ir.RankedTensorType.get(list(literal.shape), element))
        kind = gni._cc.create_vtensor_type(torch.float32 if dtype in HALF else dtype, literal.shape)
        found = ir.Operation.create("torch.vtensor.literal", results=[kind], attributes={"value": value}).result
        return gni._convert_type(found, Tensor, dtype, literal.shape) if dtype in HALF else found


class _Importer(FxImporter):
    """One import: the module under construction and the private functions it calls."""

    def __init__(self, ctx: ir.Context, reasons: dict[fx.Node, str]) -> None:
        super().__init__(context=ctx, graph_node_importer_cls=_Nodes, hooks=_Literals())
        self._cc = _TypesAndLocations(ctx, py_attr_tracker=self._py_attr_tracker)
        self.reasons = reasons
        self.count = 0

    def call(
        self, node: fx.Node, reason: str, operands: Sequence[ir.Value], results: Sequence[ir.Type], template: externs.Template
    ) -> func.CallOp:
        """Emits a call of an extern, as a private function that carries the template."""
        attributes = {f"graph.{key}": value for key, value in externs.attributes(node, reason, template).items()}
        return self.private("extern", attributes, operands, results)

    def private(
        self, name: str, attributes: dict[str, ir.Attribute], operands: Sequence[ir.Value], results: Sequence[ir.Type]
    ) -> func.CallOp:
        """Emits a call of a new private function, whose attributes describe what it stands for."""
        name = f"{name}_{self.count}"
        self.count += 1
        kind = ir.FunctionType.get([o.type for o in operands], list(results))
        private = func.FuncOp(name, kind, visibility="private", ip=ir.InsertionPoint(self._m.body))
        for key, value in attributes.items():
            private.attributes[key] = value
        return func.CallOp(list(results), name, operands)


def _scan(node: fx.Node) -> dict[str, ir.Attribute]:
    """Returns the attributes of a scan that lamina-import-ops reads: its op and its dimension."""
    _, _, dim, reduce = node.args
    name = LOG_SUM if reduce == "logsumexp" else COMBINED[str(reduce)][not node.meta["val"].dtype.is_floating_point]
    return {SCAN_OP: ir.DictAttr.get({COMBINE: ir.StringAttr.get(name), "dim": _number(dim)})}


def _number(n: Any) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(str(n)))


_MARKED: dict[Any, tuple[str, Callable[[fx.Node], dict[str, ir.Attribute]]]] = {
    BITS: ("random", lambda _: {RANDOM: ir.UnitAttr.get()}),
    SCAN: ("scan", _scan),
    CHECK: ("check", lambda node: {CHECK_MARK: ir.StringAttr.get(f"RuntimeError: {node.args[1]}")}),
    SORT: ("sort", lambda node: {SORT_OP: ir.DictAttr.get({"dim": _number(node.args[1])})}),
}
"""The ops that become calls of marked functions: the functions' name, and the attributes that mark them."""


def makes_f64(node: fx.Node) -> bool:
    """Returns whether a node creates a tensor of f64 from tensors of other dtypes or from no tensor. A scalar from no tensor does
    not count, as it may stand for a Python number."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.dtype is not torch.float64:
        return False
    given = [v for n in node.all_input_nodes if isinstance(v := n.meta.get("val"), Tensor)]
    return all(v.dtype is not torch.float64 for v in given) if given else value.dim() > 0


def import_graph(gm: fx.GraphModule, options: Options | None = None) -> ir.Module:
    """Imports a normalized graph (see normalize) as a module at the linalg level.

    Ops that `support` does not list are external calls from the start. Where the lowering of another op fails, the location of
    torch-mlir's diagnostic identifies it; it becomes an external call, and the import is repeated. Raises CompileError if no op
    can be identified; with `options.strict`, for external calls of either kind that are fallbacks.
    """
    options = options or Options()
    if is_sized(gm.graph):
        sizes_as_tensors(gm.graph)
    fold_uniform(gm.graph)
    rewrite_windows(gm.graph)
    spread_chosen(gm.graph)
    rewrite_strided(gm.graph)
    widen_narrow(gm.graph)
    nodes = [node for node in gm.graph.nodes if node.op == "call_function"]
    reasons = {node: reason for node in nodes if (reason := support.reason(node)) is not None}
    while True:
        if options.strict:
            _refuse_fallbacks(reasons)
        module = import_torch(gm, reasons)
        failure = linalg.lower(module)
        if failure is None:
            repair(module)
            return module
        blamed = [node for node in nodes if node not in reasons and failure.blames(str(node.target), source_of(node))]
        if not blamed:
            raise CompileError(
                f"torch-mlir could not lower the model: {failure.message}",
                where=failure.where,
                remedy="report the model's op, or leave the module that holds it uncompiled with torch.compiler.disable",
            )
        reasons |= dict.fromkeys(blamed, "fallback")


def import_torch(gm: fx.GraphModule, reasons: dict[fx.Node, str] | None = None) -> ir.Module:
    """Imports a graph into the torch dialect, with calls for the nodes in `reasons` (by default those that `support` names)."""
    if reasons is None:
        reasons = {n: r for n in gm.graph.nodes if n.op == "call_function" and (r := support.reason(n)) is not None}
    ctx = context()
    torch_dialect.register_dialect(ctx)
    importer = _Importer(ctx, reasons)
    with ctx:
        main = importer.import_stateless_graph(gm.graph, func_name="main")
        if is_sized(gm.graph):
            main.attributes[STRICT] = ir.UnitAttr.get()
    return importer.module


def _refuse_fallbacks(reasons: dict[fx.Node, str]) -> None:
    for node, reason in reasons.items():
        if reason == "fallback":
            raise CompileError(
                f"{node.target} has no lowering and would run as an external call",
                where=where(node),
                remedy="strict is set: rewrite the op, or compile without options.strict and LAMINA_STRICT",
            )

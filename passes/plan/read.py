"""Reads @main at the graph level into a `Model`: gives every value memory or a view, lists the steps, and inserts copies where
no strides will do."""

from collections.abc import Sequence
from contextlib import suppress

from torch_mlir import ir

from lamina.core.dtypes import FROM_MLIR
from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.program import ALIGNED, ITEM_BYTES
from lamina.core.sizes import SizeLike, divisor
from lamina.dialects.graph import CALLS, COMPLEX, IN_PLACE, ON_COMPLEX, ExternOp, KernelOp
from lamina.kernels.library import READS_ALIGNED, READS_ROWS, may_alias, writes_in_place

from ..families.choice import CHOICE
from ..families.conv.calls import channels_last
from ..families.gemm.contractions import product_on
from ..families.surroundings import strides_of
from ..ir.extern_calls import needed_strides
from ..ir.locations import where
from ..ir.reading import Untraceable, callee_of, name_of, ops_in, shape_of
from ..ir.sizes import SIZE, read_sizes
from ..ir.views import is_view, view_layout
from ..space.contraction import Unfit
from ..space.direct_convolution import WINDOW
from .copies import copy_group, sink, with_repeats, without_repeats
from .layout_preferences import Strides, Wants, wanted_strides
from .model import CallStep, GroupStep, Kind, Model, Root, Step, ValuePlace
from .scatters import changed_operand, may_change
from .sibling_layouts import like_siblings
from .split_by_order import split_by_order


def read(main: ir.Operation) -> Model:
    """Returns the model of a function on tensors. @main gains copy groups; otherwise it is left as it is. Raises CompileError
    for dynamic shapes, element types without a form in memory, and ops that cannot be planned."""
    return _Reader(main).read()


class _Reader:
    """Builds the model of one function."""

    def __init__(self, main: ir.Operation) -> None:
        self.main = main
        self.block = main.regions[0].blocks[0]
        self.places: dict[ir.Value, ValuePlace] = {}
        self.constants: dict[ir.Attribute, Root] = {}
        self.copies: dict[ir.Value, ValuePlace] = {}
        self.rows: dict[ir.Value, ValuePlace] = {}
        self.steps: list[Step] = []
        self.wants = Wants()

    def read(self) -> Model:
        """Reads inputs, ops and results, and returns the model."""
        ops = ops_in(self.block)
        results = list(zip(ops[-1].operands, self._attributes("res_attrs", len(ops[-1].operands)), strict=True))
        self.wants = wanted_strides(ops, [(value, _strides(attributes)) for value, attributes in results])
        inputs = []
        for index, attributes in enumerate(self._attributes("arg_attrs", len(self.block.arguments))):
            inputs.append(self._input(index, self.block.arguments[index], attributes))
        for op in split_by_order(ops[:-1], self.wants):
            self._op(op)
        returned = self._returns(ops[-1], [attributes for _, attributes in results])
        name = name_of(self.main)
        complex_ones = [number for number, (_, attributes) in enumerate(results) if COMPLEX in attributes]
        return Model(name, inputs, self.steps, returned, complex_ones)

    def _attributes(self, name: str, count: int) -> list[dict[str, ir.Attribute]]:
        if name not in self.main.attributes:
            return [{} for _ in range(count)]
        return [{named.name: named.attr for named in d} for d in self.main.attributes[name]]

    def _input(self, index: int, value: ir.Value, attributes: dict[str, ir.Attribute]) -> Root:
        shape = _shape(value, self.main)
        layout = Layout.of(shape, _strides(attributes) or Layout.row_major(shape).strides)
        root = self._root("input", value, layout, attributes)
        root.index, root.complex = index, COMPLEX in attributes
        if "graph.align" in attributes:
            root.align = ir.IntegerAttr(attributes["graph.align"]).value
        return root

    def _root(self, kind: Kind, value: ir.Value, layout: Layout, attributes: dict[str, ir.Attribute] | None = None) -> Root:
        """Returns new memory for a value, and records it as the value's place."""
        element = ir.RankedTensorType(value.type).element_type
        if str(element) not in FROM_MLIR:
            raise CompileError(f"tensors of {element} have no form in memory", where=where(self.main.location))
        dtype = FROM_MLIR[str(element)].name
        if attributes and "graph.dtype" in attributes:
            dtype = attributes["graph.dtype"].value
        memory = ir.IntegerType.get_signless(8) if dtype == "bool" else element
        root = Root(kind, layout, memory, dtype, layout.span * ITEM_BYTES[dtype])
        self.places[value] = ValuePlace(root, layout)
        return root

    def _op(self, op: ir.Operation) -> None:
        """Reads one op of @main. Raises CompileError for an op that no kernel computes."""
        for result in op.results:
            if isinstance(result.type, ir.RankedTensorType):
                _shape(result, op)
        if op.name == "graph.group":
            self._group(op)
        elif op.name in CALLS:
            self._call(op)
        elif op.name == "arith.constant":
            sink(op)
            if isinstance(op.results[0].type, ir.RankedTensorType):
                self._constant(op)
        elif op.name == "tensor.empty":
            sink(op)
            self._root("arena", op.results[0], self.wants.layout(op.results[0])).first = len(self.steps)
        elif op.name == SIZE:
            sink(op)  # the types of other users name the size
        elif is_view(op):
            self._view(op)
        else:
            remedy = "run lamina-fuse before lamina-plan"
            raise CompileError(f"{op.name} outside a group cannot be planned", where=where(op.location), remedy=remedy)

    def _constant(self, op: ir.Operation) -> None:
        value, data = op.results[0], op.attributes["value"]
        if data in self.constants:
            root = self.constants[data]
            self.places[value] = ValuePlace(root, root.layout)
            return
        root = self._root("constant", value, Layout.row_major(shape_of(value)))
        root.index, root.data = len(self.constants), data
        self.constants[data] = root

    def _view(self, op: ir.Operation) -> None:
        """Places the result of a view in its source's memory, or in that of a copy where strides do not express it."""
        source = self.places[op.operands[0]]
        layout = view_layout(op, source.layout)
        if layout is None:
            copied = self._copied(op.operands[0], op)
            layout = view_layout(op, copied.layout)
            assert layout is not None, "a row-major value has every view"
            source = copied
        self.places[op.results[0]] = ValuePlace(source.root, layout)

    def _copied(self, value: ir.Value, before: ir.Operation) -> ValuePlace:
        """Returns a row-major copy of a value, made once."""
        if value not in self.copies:
            self.copies[value] = self._copy(value, before, Layout.row_major(shape_of(value)))
        return self.copies[value]

    def _copy(self, value: ir.Value, before: ir.Operation, layout: Layout) -> ValuePlace:
        source = self.places[value]
        group = copy_group(value, before)
        root = self._root("arena", group.results[0], layout)
        root.dtype = source.root.dtype
        self._step(GroupStep(group, [source], [root]))
        return ValuePlace(root, layout)

    def _group(self, op: ir.Operation) -> None:
        """Adds the step of a kernel, and chooses the layouts of its results."""
        ins = [self._place(value, op) for value in op.operands]
        wanted = [self.wants.layout(result) if self.wants.has(result) else None for result in op.results]
        layouts = like_siblings(op, wanted, self.wants.rows, [place.layout for place in ins])
        if CHOICE in op.attributes and WINDOW not in op.attributes:
            ins, layouts = self._for_product(op, ins, layouts)
        if WINDOW in op.attributes:
            for i, image in enumerate(op.operands):
                if len(shape_of(image)) == 4:
                    ins[i] = self._with_strides(image, channels_last(shape_of(image)), op)
            layouts = [Layout.of(x.shape, channels_last(x.shape)) if len(x.shape) == 4 else x for x in layouts]
        outs, inplace = [], []
        for result, layout in zip(op.results, layouts, strict=True):
            if (changed := changed_operand(result)) is None:
                outs.append(self._root("arena", result, layout))
                continue
            if not may_change(op, changed, ins[changed]):
                ins[changed] = self._copy(op.operands[changed], op, self._fresh(ins[changed].layout, {}, op))
            self.places[result] = ins[changed]
            inplace.append((changed, len(ins) + len(outs)))
            outs.append(ins[changed].root)
        self._step(GroupStep(op, ins, outs, inplace))

    def _for_product(self, op: ir.Operation, ins: list[ValuePlace], outs: list[Layout]) -> tuple[list[ValuePlace], list[Layout]]:
        """Returns the layouts of the operands and results of a product with its epilogue. They must leave its rows one axis, and
        its columns, as the ones that lamina-select-kernels assumed do; other operands are copied."""
        plain = [Layout.row_major(layout.shape) for layout in outs]
        for layouts in (outs, plain):
            with suppress(Unfit, Untraceable):
                product_on(op, [p.layout.strides for p in ins], [layout.strides for layout in layouts])
                return ins, layouts
        return [self._with_strides(value, strides_of(value), op) for value in op.operands], plain

    def _call(self, op: ir.Operation) -> None:
        """Adds the step of a call, with copies of operands whose layout the routine cannot take."""
        callee = callee_of(op)
        strides = [s for s in op.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
        declared = [Layout.of(shape_of(result), read_sizes(s)) for result, s in zip(op.results, strides, strict=True)]
        wanted = [self.wants.layout(result, layout) for result, layout in zip(op.results, declared, strict=True)]
        layouts = next((choice for choice in (wanted, declared) if writes_in_place(callee, choice)), None)
        if IN_PLACE in op.attributes:
            layouts = declared
        if op.name == KernelOp.OPERATION_NAME:  # written for these strides, or for any
            layouts = declared if "needs" in op.attributes else wanted
        dtypes = [{"graph.dtype": d} for d in op.attributes["dtypes"]] if "dtypes" in op.attributes else [{} for _ in op.results]
        outs = [
            self._root("owned" if layouts is None else "arena", result, layout, attributes)
            for result, layout, attributes in zip(op.results, layouts or declared, dtypes, strict=True)
        ]
        free = self._with_rows if callee in READS_ROWS else self._place
        needs = needed_strides(op) or [None] * len(op.operands)
        ins = [free(v, op) if s is None else self._with_strides(v, s, op) for v, s in zip(op.operands, needs, strict=True)]
        if layouts is None and may_alias(callee.removeprefix(ON_COMPLEX)):
            for root in outs:
                root.aliases = [place.root for place in ins]
        self._step(CallStep(op, ins, outs, layouts is not None))

    def _with_strides(self, value: ir.Value, strides: Sequence[SizeLike], user: ir.Operation) -> ValuePlace:
        """Returns a value in a layout that its user requires, copied if it is in another."""
        place = self._place(value, user)
        needed = Layout.of(place.layout.shape, tuple(strides))
        if place.layout.strides == needed.strides:
            return place
        if not needed.is_injective:
            if user.name == ExternOp.OPERATION_NAME:  # it takes an expanded tensor, and so any
                return place
            raise CompileError(f"{user.name} needs strides {needed.strides}, whose elements overlap", where=where(user.location))
        return self._copy(value, user, needed)

    def _with_rows(self, value: ir.Value, user: ir.Operation) -> ValuePlace:
        """Returns a value in memory whose last dimension is contiguous, and which is aligned where its user counts on that: copied
        once, without repetitions, if it is not."""
        place = self._place(value, user)
        aligned = divisor(place.layout.offset * ITEM_BYTES[place.root.dtype]) % ALIGNED == 0 or callee_of(user) not in READS_ALIGNED
        if not place.layout.shape or (place.layout.strides[-1] == 1 and aligned):
            return place
        if value not in self.rows:
            piece, layout = without_repeats(value, place.layout, user)
            self.places[piece] = ValuePlace(place.root, layout)
            copied = self._copied(piece, user)
            self.rows[value] = ValuePlace(copied.root, with_repeats(copied.layout, place.layout.shape))
        return self.rows[value]

    def _place(self, value: ir.Value, user: ir.Operation) -> ValuePlace:
        if value not in self.places:
            raise CompileError(f"{user.name} uses a value that is not a tensor", where=where(user.location))
        return self.places[value]

    def _step(self, step: Step) -> None:
        for root in step.outs:
            if all(place.root is not root for place in step.ins):
                root.first = len(self.steps)
        self.steps.append(step)

    def _returns(self, op: ir.Operation, attributes: Sequence[dict[str, ir.Attribute]]) -> list[ValuePlace]:
        """Returns the results, each in memory that may leave the call: an argument's unless it has to be fresh (`graph.fresh`),
        another result's if it may be (`graph.shares`), else its own."""
        returned: list[ValuePlace] = []
        groups: list[int] = []  # for each result: the first result whose memory it may share
        for number, (value, wishes) in enumerate(zip(op.operands, attributes, strict=True)):
            place = self._place(value, op)
            layout = Layout.of(place.layout.shape, _strides(wishes) or place.layout.strides)
            groups.append(groups[wishes["graph.shares"].value] if "graph.shares" in wishes else number)
            if place.root.kind == "input":
                foreign = "graph.fresh" in wishes
            else:  # each result is a tensor with a storage of its own
                others = zip(returned, groups, strict=False)
                in_other_result = any(other.root is place.root and group != groups[-1] for other, group in others)
                foreign = in_other_result or place.root.kind == "constant" or bool(place.root.aliases)
            if foreign or layout.strides != place.layout.strides:
                place = self._copy(value, op, self._fresh(layout, wishes, op))
            if place.root.kind == "arena":
                place.root.kind = "output"
                if "graph.updates" in wishes:
                    place.root.updates = self.places[self.block.arguments[wishes["graph.updates"].value]].root
            if "graph.dtype" in wishes:
                place.root.dtype = wishes["graph.dtype"].value
            returned.append(place)
        return returned

    def _fresh(self, layout: Layout, wishes: dict[str, ir.Attribute], op: ir.Operation) -> Layout:
        """Returns the layout of a copy: as asked for, else without gaps."""
        if "graph.strides" not in wishes:
            return layout if layout.is_dense else Layout.row_major(layout.shape)
        if not layout.is_injective:
            raise CompileError(f"a result with strides {layout.strides}, whose elements overlap", where=where(op.location))
        return layout


def _strides(attributes: dict[str, ir.Attribute]) -> Strides | None:
    return read_sizes(attributes["graph.strides"]) if "graph.strides" in attributes else None


def _shape(value: ir.Value, op: ir.Operation) -> tuple[SizeLike, ...]:
    """Returns the shape of a value. Raises CompileError for one that is not a tensor, or has a size that nothing names."""
    if not isinstance(value.type, ir.RankedTensorType):
        raise CompileError(f"{value.type} is not a tensor", where=where(op.location))
    try:
        return shape_of(value)
    except CompileError as error:
        raise CompileError(error.message, where=where(op.location), remedy=error.remedy) from None

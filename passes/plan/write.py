"""Writes a planned model as a `plan.program`."""

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.program import ALIGNED
from lamina.dialects.plan import AllocOp, CallOp, ConstantOp, InputOp, KernelCallOp, LaunchOp, OutputOp, ProgramOp, ReturnOp, ViewOp

from ..ir.sizes import i64, layout_attributes, layouts_attribute, memref_type, size_attribute
from .model import CallStep, GroupStep, Model, Root, ValuePlace
from .outline import Outlined, pairs_attribute


def memref(root: Root, layout: Layout) -> ir.Type:
    """Returns the memref type of a tensor in a root's memory."""
    return memref_type(layout, root.element)


def step_types(step: GroupStep) -> list[ir.Type | ir.Attribute]:
    """Returns the memref types of a launch's operands, inputs, then outputs, and their symbolic sizes."""
    places = [(place.root, place.layout) for place in step.ins] + [(root, root.layout) for root in step.outs]
    return [memref(*place) for place in places] + [a for _, x in places for a in layout_attributes(x).values()]


class PlanWriter:
    """Writes the ops of a plan.program. Buffers and views appear in front of their first use."""

    def __init__(self, model: Model, before: ir.Operation, sizes: dict[str, int]) -> None:
        self.model = model
        self.roots: dict[Root, ir.Value] = {}
        self.views: dict[ValuePlace, ir.Value] = {}
        self.outputs = 0
        program = ir.Operation.create(
            ProgramOp.OPERATION_NAME,
            attributes={"sym_name": ir.StringAttr.get(model.name), **{k: i64(v) for k, v in sizes.items()}},
            regions=1,
            loc=before.location,
            ip=ir.InsertionPoint(before),
        )
        self.ip = ir.InsertionPoint(ir.Block.create_at_start(program.regions[0]))

    def emit(self, outlined: dict[GroupStep, Outlined], end: ir.Location) -> None:
        """Writes inputs, steps and the return; `end` is the location of inputs and return."""
        for root in self.model.inputs:
            self._root(root, end)
        for step in self.model.steps:
            if isinstance(step, GroupStep):
                self._launch(step, outlined[step])
            else:
                self._call(step)
        returned = [self._place(p, end) for p in self.model.returned]
        flags = [i in self.model.complex for i in range(len(returned))]
        attributes: dict[str, ir.Attribute] = {"complex": ir.DenseBoolArrayAttr.get(flags)} if any(flags) else {}
        self._create(ReturnOp.OPERATION_NAME, [], returned, attributes, end)

    def _create(
        self, name: str, results: list[ir.Type], operands: list[ir.Value], attributes: dict[str, ir.Attribute], loc: ir.Location
    ) -> ir.Operation:
        return ir.Operation.create(name, results=results, operands=operands, attributes=attributes, loc=loc, ip=self.ip)

    def _root(self, root: Root, loc: ir.Location) -> ir.Value:
        """Returns the buffer of a root, which is emitted at its first use."""
        if root.over is not None:
            return self._root(root.over, loc)
        if root in self.roots:
            return self.roots[root]
        attributes: dict[str, ir.Attribute] = {}
        if _is_named(root):
            attributes["dtype"] = ir.StringAttr.get(root.dtype)
        attributes |= layout_attributes(root.layout)
        if root.kind == "input":
            name, attributes["index"] = InputOp.OPERATION_NAME, i64(root.index)
            if root.complex:
                attributes["complex"] = ir.UnitAttr.get()
            if root.align < ALIGNED:
                attributes["align"] = i64(root.align)
        elif root.kind == "constant":
            assert root.data is not None
            name, attributes["value"] = ConstantOp.OPERATION_NAME, root.data
        elif root.kind == "output":
            name, attributes["index"] = OutputOp.OPERATION_NAME, i64(self.outputs)
            self.outputs += 1
        else:
            assert root.slot is not None, "an owned root is the result of its call"
            name = AllocOp.OPERATION_NAME
            attributes |= {"offset": i64(root.slot.offset), "bytes": size_attribute(root.bytes)}
        self.roots[root] = self._create(name, [memref(root, root.layout)], [], attributes, loc).result
        return self.roots[root]

    def _place(self, place: ValuePlace, loc: ir.Location) -> ir.Value:
        if place.layout == place.root.layout:
            return self._root(place.root, loc)
        if place not in self.views:
            source, view = self._root(place.root, loc), memref(place.root, place.layout)
            attributes = {"offset": size_attribute(place.layout.offset), **layout_attributes(place.layout)}
            self.views[place] = self._create(ViewOp.OPERATION_NAME, [view], [source], attributes, loc).result
        return self.views[place]

    def _launch(self, step: GroupStep, how: Outlined) -> None:
        loc = how.location
        operands = [self._place(place, loc) for place in step.ins] + [self._root(root, loc) for root in step.outs]
        attributes = {
            "kernel": ir.FlatSymbolRefAttr.get(how.name),
            "n_out": i64(len(step.outs)),
            "label": ir.StringAttr.get(how.label),
        }
        if step.inplace:
            attributes["inplace"] = pairs_attribute(step.inplace)
        self._create(LaunchOp.OPERATION_NAME, [], operands, attributes, loc)

    def _call(self, step: CallStep) -> None:
        """Emits the step of a call: results in place are operands, others are the call's own memory."""
        loc = step.op.location
        operands = [self._place(place, loc) for place in step.ins]
        results = []
        if step.in_place:
            operands += [self._root(root, loc) for root in step.outs]
        else:
            results = [memref(root, root.layout) for root in step.outs]
        attributes = {key: step.op.attributes[key] for key in step.op.attributes if key not in ("strides", "dtypes", "needs")}
        attributes["n_out"] = i64(len(step.outs) if step.in_place else 0)
        attributes |= {} if step.in_place else layouts_attribute([root.layout for root in step.outs])
        if not step.in_place and any(map(_is_named, step.outs)):
            attributes["dtypes"] = ir.ArrayAttr.get([ir.StringAttr.get(root.dtype) for root in step.outs])
        tensors = [not isinstance(s, ir.TypeAttr) for s in step.op.attributes["strides"]]
        if not all(tensors):
            attributes["tensors"] = ir.DenseBoolArrayAttr.get(tensors)
        name = KernelCallOp.OPERATION_NAME if step.op.name == "graph.kernel" else CallOp.OPERATION_NAME
        call = self._create(name, results, operands, attributes, loc)
        if not step.in_place:
            self.roots.update(zip(step.outs, call.results, strict=True))


def _is_named(root: Root) -> bool:
    """Returns whether a root's dtype has to be written, as its element type leaves it open."""
    return str(root.element) == "i8" or root.dtype == "u64"

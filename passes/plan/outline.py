"""Outlines groups as functions; equal groups share one."""

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func

from ..ir.locations import fused, model_ops, op_word
from ..ir.reading import name_of, ops_in, terminator
from ..ir.sizes import SIZE
from .model import GroupStep


@dataclass(frozen=True)
class Outlined:
    """The launch of a group: its function, its own label and the locations of its ops."""

    kernel: ir.Operation
    label: str
    location: ir.Location

    @property
    def name(self) -> str:
        """The symbol of the function."""
        return name_of(self.kernel)


# Functions that compiled code may call: a kernel of the same name would be called instead.
_C_LIBRARY = set(
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs floor fma fmax fmin
    fmod frexp ldexp lgamma log log10 log1p log2 memcpy memmove memset nearbyint pow remainder rint round roundeven sin sincos
    sinh sqrt tan tanh tgamma trunc""".split()
)
# Names with a meaning in the text of Triton kernels: a model's own op may have any name.
_TRITON = {*keyword.kwlist, "erf_beside_one", "erf_gelu", "float", "range", "tl", "triton"}
_ANYWHERE = ("arith.constant", "linalg.fill", "tensor.empty", SIZE)
_OWN = ("sym_name", "graph.strides")


def outline(module: ir.Module, steps: Sequence[GroupStep], types: dict[GroupStep, list[ir.Type]]) -> dict[GroupStep, Outlined]:
    """Moves every group's region into a private function with the attribute `graph.kernel`.

    Groups share a function when their bodies are equal up to locations and so are the memrefs `types` they are launched on.
    """
    used_names = {name_of(op) for op in module.body.operations if "sym_name" in op.attributes}
    used_names |= _C_LIBRARY | _TRITON
    kernels: dict[tuple[str, ...], ir.Operation] = {}
    outlined: dict[GroupStep, Outlined] = {}
    for step in steps:
        location = _location(step.op)
        label = _label(step.op, location)
        function = _function(module, step.op)
        key = (function.get_asm(use_local_scope=True, assume_verified=True), *map(str, types[step]))
        if key in kernels:
            function.erase()
        else:
            function.attributes["sym_name"] = ir.StringAttr.get(unique(label, used_names))
            kernels[key] = function
        outlined[step] = Outlined(kernels[key], label, location)
    return outlined


def mark_in_place(outlined: Mapping[GroupStep, Outlined]) -> None:
    """Sets `graph.inplace` on each kernel to the union of its launches' in-place pairs: it must be right for all of them."""
    pairs: dict[ir.Operation, set[tuple[int, int]]] = {}
    for step, how in outlined.items():
        if step.inplace:
            pairs.setdefault(how.kernel, set()).update(step.inplace)
    for kernel, found in pairs.items():
        kernel.attributes["graph.inplace"] = pairs_attribute(sorted(found))


def pairs_attribute(pairs: Sequence[tuple[int, int]]) -> ir.ArrayAttr:
    """Returns pairs of operand positions as an attribute."""
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(pair)) for pair in pairs])


def _location(group: ir.Operation) -> ir.Location:
    """Returns the group's own location when it names ops, else the locations of those inside."""
    if isinstance(group.location, ir.FusedLoc | ir.NameLoc):
        return group.location
    ops = ops_in(group.regions[0].blocks[0])
    return fused([op.location for op in ops if op.name.startswith(("linalg.", "tensor."))] or [group.location])


def _label(group: ir.Operation, location: ir.Location) -> str:
    """Returns the group's name, else one made of the ops it holds: "add_relu_mul"."""
    if name := name_of(group):
        return str(name)
    found = dict.fromkeys(map(op_word, model_ops(location)))
    return "_".join(list(found)[:4]) or "kernel"


def unique(label: str, used_names: set[str]) -> str:
    """Returns an unused symbol that C and LLVM accept, named after `label`, and adds it to `used_names`."""
    base = re.sub(r"\W+", "_", label, flags=re.ASCII).strip("_") or "kernel"
    if base[0].isdigit():
        base = f"k_{base}"
    name, number = base, 1
    while name in used_names:
        name, number = f"{base}_{number}", number + 1
    used_names.add(name)
    return name


def _function(module: ir.Module, group: ir.Operation) -> ir.Operation:
    """Returns a function with the group's body and, as yet, no name."""
    block = group.regions[0].blocks[0]
    _arrange(block)
    end = terminator(block)
    signature = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in end.operands])
    kept = {key: group.attributes[key] for key in group.attributes if key not in _OWN}
    made = func.FuncOp("", signature, visibility="private", loc=group.location, ip=ir.InsertionPoint(module.body))
    function: ir.Operation = made.operation
    for name, value in {"graph.kernel": ir.UnitAttr.get(), **kept}.items():
        function.attributes[name] = value
    func.ReturnOp(list(end.operands), loc=end.location, ip=ir.InsertionPoint(end))
    end.erase()
    block.append_to(function.regions[0])
    return function


def _arrange(block: ir.Block) -> None:
    """Moves constants and initial values in front of their first use, as equal groups may have them anywhere."""
    *ops, end = ops_in(block)
    left = {op for op in ops if op.name in _ANYWHERE}

    def place(used: ir.Operation, user: ir.Operation) -> None:
        """Moves an op in front of its user, behind what it reads."""
        left.discard(used)
        used.move_before(user)
        uses(used, used)

    def uses(op: ir.Operation, user: ir.Operation) -> None:
        """Moves what an op and its regions read in front of a user."""
        for v in op.operands:
            if not isinstance(v, ir.BlockArgument) and v.owner in left:
                place(v.owner, user)
        for region in op.regions:
            for inner in region.blocks[0].operations:
                uses(inner.operation, user)

    for op in (*ops, end):
        if not left:
            return
        if op not in left:
            uses(op, op)

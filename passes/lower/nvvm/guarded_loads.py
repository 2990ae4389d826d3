"""Lowers loads under a guard, `guard ? load(guard ? i : 0) : padding`, to PTX loads that run only where the guard holds.

Code for any GPU has no branch around such a load, since a branch would keep loads from being in flight together: all threads load,
those outside the guard element 0, and then select. NVIDIA's instructions take a predicate ("@p"): neither the index nor the result
is selected, and loads a constant number of elements apart, as a stencil has them, share an address. Accesses of several elements
stay as they are: there are few of them, and their registers are scarce.
"""

from dataclasses import dataclass
from functools import reduce

from torch_mlir import ir

from ...ir.emit import Emit
from ...ir.reading import element_of, number_of, producer
from ...ir.rewriting import replace_op
from ..buffers import argument_attributes, roots
from .addresses import address


@dataclass(frozen=True)
class Guarded:
    """A load of one element.

    guard   whether the thread loads
    source  memory, a memref of rank 1
    place   index of the element
    """

    guard: ir.Value
    source: ir.Value
    place: ir.Value


def lower(function: ir.Operation, ops: dict[str, list[ir.Operation]], index_bits: int) -> None:
    """Lowers the guarded loads of arguments whose memory a gpu.func only reads. ops: the function's, by name."""
    only_read = _only_read(function, ops)
    found = [(op, load) for op in ops.get("arith.select", ()) if (load := _load_under(op.operands[0], op.operands[1])) is not None]
    found = [(op, load) for op, load in found if all(root in only_read for root in roots(load.source))]
    start = _start(function, ops) if found else None
    for op, load in found:
        e = Emit(ir.InsertionPoint(op), op.location)
        apart, terms = _apart(e, load.place)
        if not (_is_neighbor(op) and any(map(_is_one_further, terms))):
            place, padding = _sum(e, terms), op.operands[2]
            if not isinstance(padding.type, ir.VectorType):
                replace_op(op, _emit(e, load, place, apart, padding, start, index_bits))
                continue
            value = _emit(e, load, place, apart, _lane(e, padding, 0), start, index_bits)
            replace_op(op, e.op("vector.from_elements", [padding.type], [value]).result)


def _is_neighbor(select: ir.Operation) -> bool:
    """Returns whether an element is one of several neighbors that a thread reads one by one. If a loop moves over them by one
    element, its steps read the same: ptxas unrolls it and merges loads that all threads run, but none under a predicate."""
    users = (use.owner for use in select.results[0].uses)
    return any(user.name == "vector.from_elements" and len(user.operands) > 1 for user in users)


def _is_one_further(term: ir.Value) -> bool:
    """Returns whether a term of an index counts the steps of a loop by one."""
    loop = term.owner.owner if isinstance(term, ir.BlockArgument) else None
    return loop is not None and loop.name == "scf.for" and number_of(loop.operands[2]) == 1


def _sum(e: Emit, terms: list[ir.Value]) -> ir.Value:
    """Emits the sum of the terms of an index, marked as one that does not overflow, so that LLVM finds constants in it."""
    if not terms:
        return e.constant(0, ir.IndexType.get()).value
    nsw = ir.Attribute.parse("#arith.overflow<nsw>")
    return reduce(lambda a, b: e.op("arith.addi", [a.type], [a, b], overflowFlags=nsw).result, terms)


def _start(function: ir.Operation, ops: dict[str, list[ir.Operation]]) -> ir.Value | None:
    """Emits a zero for the addresses of a kernel that starts before its inputs are written. It looks computed by an instruction
    after the wait for them, so no load moves ahead of that, while equal loads become one. None for other kernels."""
    if "tile.dependent" not in function.attributes:
        return None
    waits = (op for op in ops.get("nvvm.griddepcontrol", ()) if "wait" in str(op.attributes["kind"]))
    wait = next(waits, function.regions[0].blocks[0].operations[0])
    e = Emit(ir.InsertionPoint.after(wait), wait.location)
    text = {"asm_string": ir.StringAttr.get("mov.b64 $0, 0;"), "constraints": ir.StringAttr.get("=l")}
    return e.op("llvm.inline_asm", [ir.IntegerType.get_signless(64)], [], **text, has_side_effects=ir.UnitAttr.get()).result


def _only_read(function: ir.Operation, ops: dict[str, list[ir.Operation]]) -> set[ir.Value]:
    """Returns the arguments whose memory nothing writes, neither through them nor through another."""
    arguments = list(function.regions[0].blocks[0].arguments)
    arguments = arguments[: len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)]
    found = argument_attributes(function, arguments, ops)
    return {a for a, names in zip(arguments, found, strict=True) if {"llvm.noalias", "llvm.readonly"} <= set(names)}


def _load_under(guard: ir.Value, value: ir.Value) -> Guarded | None:
    """Returns the load of a value, alone or as a vector of one element; None for other values, and for those that others use."""
    op = producer(value)
    if op is None or len(list(value.uses)) > 1 or isinstance(guard.type, ir.VectorType):
        return None
    if op.name == "vector.from_elements" and len(op.operands) == 1:
        return _load_under(guard, op.operands[0])
    return _under(guard, op) if op.name == "memref.load" else None


def _under(guard: ir.Value, load: ir.Operation) -> Guarded | None:
    """Returns a load as guarded if its index is 0 where the guard does not hold."""
    source, *indices = load.operands
    index = producer(indices[0]) if len(indices) == 1 else None
    if index is None or index.name != "arith.select" or index.operands[0] != guard or number_of(index.operands[2]) != 0:
        return None
    is_bit = element_of(load.results[0].type) == ir.IntegerType.get_signless(1)
    return None if is_bit else Guarded(guard, source, index.operands[1])


def _apart(e: Emit, index: ir.Value) -> tuple[int, list[ir.Value]]:
    """Returns the constants in a sum, added up, and its other terms. Looks into the sum of which `index` is a lane."""
    number, op = number_of(index), producer(index)
    if number is not None:
        return int(number), []
    if op is None:
        return 0, [index]
    terms, whole = list(op.operands), producer(op.operands[0]) if op.name == "vector.extract" else op
    if op.name == "vector.extract" and whole is not None and len(op.operands) == 1:
        (at,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
        terms = [_lane(e, term, at) for term in whole.operands] if whole.name == "arith.addi" else []
    if whole is None or whole.name != "arith.addi":
        return 0, [index]
    (a, of_a), (b, of_b) = (_apart(e, v) for v in terms)
    return a + b, of_a + of_b


def _lane(e: Emit, value: ir.Value, at: int) -> ir.Value:
    """Returns one element of a vector."""
    op = producer(value)
    if op is not None and op.name == "vector.broadcast" and not isinstance(op.operands[0].type, ir.VectorType):
        return op.operands[0]
    if op is not None and op.name == "vector.from_elements":
        return op.operands[at]
    place = ir.DenseI64ArrayAttr.get([at])
    return e.op("vector.extract", [element_of(value.type)], [value], static_position=place).result


def _emit(
    e: Emit, load: Guarded, place: ir.Value, apart: int, padding: ir.Value, start: ir.Value | None, index_bits: int
) -> ir.Value:
    """Emits the load of element `place + apart`, or else `padding`. start: see _start."""
    type_ = padding.type
    first = address(e, load.source, place, type_, index_bits, start, apart)
    bits, word = ir.IntegerType.get_signless(type_.width), ir.IntegerType.get_signless(max(type_.width, 16))
    other = padding if type_ == bits else e.op("arith.bitcast", [bits], [padding]).result
    other = other if bits == word else e.op("arith.extui", [word], [other]).result
    register = {16: "h", 32: "r", 64: "l"}[word.width]
    text = f"mov.b{word.width} $0, $3; @$2 ld.global{'' if start else '.nc'}.b{type_.width} $0, [$1];"
    asm = e.op(
        "llvm.inline_asm", [word], [first, load.guard, other],
        asm_string=ir.StringAttr.get(text), constraints=ir.StringAttr.get(f"={register},l,b,{register}"),
    )  # fmt: skip
    value = asm.result if bits == word else e.op("arith.trunci", [bits], [asm.result]).result
    return value if type_ == bits else e.op("arith.bitcast", [type_], [value]).result

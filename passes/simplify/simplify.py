"""lamina-simplify: algebraic simplification of scalars, within bodies and across generics, and of copies."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lamina.core.options import check_fast_math

from ..infra.base import Pass
from ..ir.generics import fill
from ..ir.reading import number_of, ops_in, producer, terminator
from ..ir.rewriting import ZERO, Map, Reader, erase_dead, is_unused, is_used, tensor_blocks
from .name_sizes import restore_sizes
from .rules import RULES
from .rules.intervals import mark_checked
from .scalars import ScalarRef, Scalars
from .scope import RewriteScope

_VIEWS = {"linalg.transpose", "linalg.broadcast", "tensor.expand_shape", "tensor.collapse_shape"}
_SEEN_THROUGH = _VIEWS | {"linalg.generic", "linalg.fill", "arith.constant"}
_PLAIN = ("arith.constant", "arith.index_cast", "linalg.index")
_ROUNDS = 5
_NO_ZERO = "unimplemented: tensor with zero element"


@dataclass(frozen=True)
class Simplify(Pass):
    """Simplify scalar arithmetic, within bodies and across generics, and copies and views.

        %1 = linalg.generic {...} ins(%x) { negf }
        %2 = linalg.generic {...} ins(%1, %ones) { mulf (negf %in), %in_0 }

    leaves %x where %2 was. A rule sees the op that computes an operand through block arguments, transposes, broadcasts,
    reshapes that only move unit dimensions, fills and splats, whatever other uses these have.

    By default a rule fires only where the result is equal for every input: x*1, x-0, x/1, x + -0.0, -(-x), x/2^k, relu of
    relu, casts there and back, selects on constants, checks that hold. x + 0.0 turns -0.0 into 0.0, in eager too, so it
    goes only where x cannot be -0.0 or no consumer can tell. Powers and x/sqrt(y) take the forms of eager's kernels,
    within 2 ulp.
    Intervals of constants, constant tables, positions and clamps decide comparisons: a gather whose indices are known to be inside
    loses its checks and is marked `graph.checked`, and its table of i64 becomes one of i32 where the numbers fit.
    Generics read through transposes, broadcasts and copies (their maps compose), take constants into their bodies and
    positions (aranges) as linalg.index; a generic that copies is its source, one that yields a constant is a fill.
    Upstream's canonicalize follows, for slices, pads, reshapes and transposes of each other.

    fast_math  inexact rules to allow: exp-log (exp(log x)), mul-zero (x*0), div-self (x/x), add-zero (x + 0.0 always)
    """

    name: ClassVar[str] = "lamina-simplify"
    fast_math: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fast_math(self.fast_math)

    def run(self, module: ir.Module) -> None:
        """Sweeps every block, then runs upstream's canonicalize."""
        with module.context, ir.Location.unknown():
            for block in list(tensor_blocks(module)):
                _Sweep(block, frozenset(self.fast_math)).run()
        steps = "builtin.module(canonicalize,lower-affine)"  # a pad of a pad is one by the sum of their sizes, an affine.apply
        PassManager.parse(steps, module.context).run(module.operation)
        restore_sizes(module)


class _Sweep:
    """Simplifies the generics of a block, producers first."""

    def __init__(self, block: ir.Block, fast_math: frozenset[str]) -> None:
        self.block, self.fast_math = block, fast_math
        self.present: set[str] = set()

    def run(self) -> None:
        """Simplifies all, and additions of zero once more."""
        generics = self.generics()
        for op in generics:
            self.present.update(inner.operation.name for inner in op.regions[0].blocks[0].operations)
        self.sweep(generics)
        if "add-zero" not in self.fast_math and "arith.addf" in self.present:
            # Once the consumers are simple, the sign of a zero may no longer matter to them.
            self.sweep([op for op in self.generics() if _adds_zero(op)])

    def generics(self) -> list[ir.Operation]:
        """Returns the generics that the block holds now."""
        return ops_in(self.block, "linalg.generic")

    def sweep(self, generics: list[ir.Operation]) -> None:
        """Applies the rules to each generic."""
        reader = Reader()
        scalars = Scalars(reader)
        for op in generics:
            if is_unused(op):
                continue
            s = RewriteScope(scalars, reader.generic(op), self.fast_math, self.present)
            if _forward(s) | _apply_rules(s):
                s.generic.yielded = list(terminator(s.generic.block).operands)
                op = s.close()
            _copies(s, op)


def _adds_zero(op: ir.Operation) -> bool:
    for view in op.regions[0].blocks[0].operations:
        if view.operation.name in ("arith.addf", "arith.subf") and any(number_of(v) == 0 for v in view.operands):
            return True
    return False


def _apply_rules(s: RewriteScope) -> bool:
    """Applies the rules to the body until none fires, at most _ROUNDS times; returns whether any fired."""
    for count in range(_ROUNDS):
        applied = [_apply_rule(s, view.operation) for view in list(s.generic.block.operations)]
        if not any(applied):
            return count > 0
        erase_dead(s.generic.block)
    return True


def _apply_rule(s: RewriteScope, op: ir.Operation) -> bool:
    """Replaces an op of the body by the first rule that applies to it, or erases a check that always holds; returns whether."""
    if op.name == "cf.assert" and _always_holds(op):
        op.erase()
        return True
    if op.name == "tensor.extract":
        mark_checked(s, op)
    new = next((value for rule in RULES.get(op.name, ()) if (value := rule(s, op)) is not None), None)
    if new is not None:
        op.results[0].replace_all_uses_with(new)
    return new is not None


def _always_holds(check: ir.Operation) -> bool:
    """Returns whether a check always holds, or is torch-mlir's against 1/0, which is an infinity in eager."""
    return bool(number_of(check.operands[0])) or check.attributes["msg"].value == _NO_ZERO


def _forward(s: RewriteScope) -> bool:
    """Reads inputs from behind views and copies, and moves constants and positions into the body."""
    generic, changed = s.generic, False
    read: dict[tuple[ir.Value, Map], ir.Value] = {}
    for arg, tensor, map_ in zip(generic.args, list(generic.ins), generic.maps, strict=False):
        maker = producer(tensor)
        if map_ is not None and (first := read.setdefault((tensor, map_), arg)) != arg:
            arg.replace_all_uses_with(first)
            changed = True
            continue
        if map_ is None or maker is None or maker.name not in _SEEN_THROUGH or not _worth(s, maker, tensor):
            continue
        if not is_used(arg):
            continue
        here, first = ScalarRef(arg, s.loops), s.generic.block.operations[0].operation
        source = s.scalars.resolve(here)
        number = s.scalars.number(source)
        if number is not None:
            new: ir.Value | None = s.constant(number, arg.type, first)
        elif _is_position(s, source):
            new = s.use(source, first)
        else:
            new = s.read(_behind_views(s, here))
        if new is not None and new != arg:
            arg.replace_all_uses_with(new)
            changed = True
    return changed


def _worth(s: RewriteScope, maker: ir.Operation, tensor: ir.Value) -> bool:
    """Returns whether there may be something behind this producer: most are generics that compute."""
    if maker.name != "linalg.generic":
        return True
    owner = s.scalars.reader.generic(maker).yielded[tensor.result_number].owner
    return isinstance(owner, ir.Block) or owner.operation.name in _PLAIN


def _is_position(s: RewriteScope, ref: ScalarRef) -> bool:
    node = s.scalars.node(ref)
    while node is not None and node.name == "arith.index_cast":
        node = s.scalars.node(node.args[0])
    return node is not None and node.name == "linalg.index"


def _behind_views(s: RewriteScope, ref: ScalarRef) -> ScalarRef:
    """Returns the tensor, behind views and copies, that `ref` (a block argument) reads."""
    source = s.scalars.step(ref)
    assert source is not None
    while True:
        op = producer(source.value)
        if op is None or (op.name not in _VIEWS and op.name != "linalg.generic"):
            return source
        further = s.scalars.step(source)
        if further is None:
            return source
        if op.name == "linalg.generic":
            copied = s.scalars.step(further) if isinstance(further.value.owner, ir.Block) else None
            if copied is None:
                return source
            further = copied
        source = further


def _copies(s: RewriteScope, op: ir.Operation) -> bool:
    """Replaces results of a parallel generic that are an unchanged input, or one constant everywhere."""
    generic = s.scalars.reader.generic(op)
    if not generic.parallel:
        return False
    changed, n_in = False, len(generic.ins)
    for i, (result, value) in enumerate(zip(op.results, generic.yielded, strict=True)):
        if not is_used(result):
            continue
        if isinstance(value.owner, ir.Block):
            at = value.arg_number
            tensor = (generic.ins + generic.outs)[at]
            same = generic.maps[at] == generic.maps[n_in + i] and tensor.type == result.type
            if same and at < n_in and generic.maps[at] is not None and ZERO not in (generic.maps[at] or ()):
                result.replace_all_uses_with(tensor)
                changed = True
        elif value.owner.operation.name == "arith.constant" and value.owner.operation.block != generic.block:
            with op.location, ir.InsertionPoint(op):
                result.replace_all_uses_with(fill(result.type, value))
            changed = True
    return changed

"""Emits the replacement of a matched pattern."""

from collections.abc import Sequence

from torch_mlir import ir

from ...ir.emit import Emit
from ...ir.generics import empty, filled, generic
from ...ir.reading import attributes_of, neutral_element
from ...ir.rewriting import ZERO, Map, constant, map_attribute
from ...ir.sizes import sizes_of, tensor_type
from ..scalars import ScalarNode, ScalarRef
from ..scope import RewriteScope
from .forms import ReductionForm
from .match import Env, PatternBinding
from .pattern import COLUMNS, Function
from .rule import PATTERN


class CannotPlace(Exception):
    """Raised where a parameter of the pattern is bound to a scalar that no tensor holds."""


class PatternEmitter:
    """Emits the scalar ops of a replacement in front of `root`; reductions and per-row values become generics of their own.

    f16 and bf16 compute in f32, f64 in f64. Expressions that depend only on the row are computed once per row.
    """

    def __init__(self, s: RewriteScope, replacement: Function, env: Env, root: ir.Operation, name: str, loc: ir.Location) -> None:
        self.s, self.function, self.forms, self.env = s, replacement, replacement.forms, env
        self.root, self.name, self.loc = root, name, loc
        self.type = root.results[0].type if isinstance(root.results[0].type, ir.F64Type) else ir.F32Type.get()
        self.loops = dict(env.loops)
        self.tensors: dict[ScalarRef, ScalarRef] = {}
        self._free: dict[ScalarRef, frozenset[int]] = {}
        self._fresh = 100000

    def run(self) -> ir.Value:
        """Returns the value that replaces the root. Raises CannotPlace."""
        top = self.forms.strip(self.function.root)
        value = self._write(top, _InBody(self, frozenset(self.function.root.index)))
        return _cast(value, self.root.results[0].type, ir.InsertionPoint(self.root), self.loc)

    def free(self, ref: ScalarRef) -> frozenset[int]:
        """Returns the replacement's loops that a scalar depends on."""
        ref = self.forms.strip(ref)
        if ref not in self._free:
            if self.function.position(ref) is not None:
                self._free[ref] = frozenset(d for d in ref.index if d != ZERO)
            elif (found := self.forms.reduction(ref)) is not None:
                self._free[ref] = self.free(found.inner) - set(found.loops)
            else:
                node = self.forms.look(ref)[1]
                self._free[ref] = frozenset(d for a in node.args for d in self.free(a)) if node else frozenset()
        return self._free[ref]

    def _write(self, ref: ScalarRef, body: "_Body") -> ir.Value:
        """Returns a scalar of the replacement as a value of `body`."""
        ref = self.forms.strip(ref)
        if ref in body.known:
            return body.known[ref]
        body.known[ref] = value = self._new(ref, body)
        return value

    def _new(self, ref: ScalarRef, body: "_Body") -> ir.Value:
        if (position := self.function.position(ref)) is not None:
            return self._parameter(position, ref.index, body)
        if (number := self.forms.number(ref)) is not None:
            return body.constant(float(self.env.size or number) if number == COLUMNS else number)
        node = self.forms.look(ref)[1]
        inside = ref in body.own  # the value this body was made to compute
        if not inside and (node is None or (self.free(ref) and self.free(ref) < body.space)):
            return body.read(self._tensor(ref))
        if node is None:
            raise CannotPlace
        return body.op(node, [self._write(a, body) for a in node.args])

    def _parameter(self, position: int, index: Map, body: "_Body") -> ir.Value:
        bound = self.env.vars.get(position)
        if bound is None:
            raise CannotPlace
        if bound.number is not None:
            return body.constant(bound.number)
        return body.parameter(bound, index)

    def _tensor(self, ref: ScalarRef) -> ScalarRef:
        """Returns a tensor that holds `ref`, at the root's loops: a generic in front of the root's computes it."""
        if ref not in self.tensors:
            reduction = self.forms.reduction(ref)
            space = tuple(sorted(self.free(ref)))
            if reduction is not None:
                self.loops[reduction.loops[0]] = self._columns()
            self.tensors[ref] = self._generic(ref, space, reduction)
        return self.tensors[ref]

    def _columns(self) -> Map:
        """Returns loop numbers for a reduction of the replacement: it runs over as many as the rows have columns."""
        last = self.loops[max(self.function.root.index)]
        self._fresh += len(last)
        return tuple(range(self._fresh - len(last), self._fresh))

    def _generic(self, ref: ScalarRef, space: Map, reduction: ReductionForm | None) -> ScalarRef:
        order = [*space, *(reduction.loops if reduction else ())]
        loops = [i for d in order for i in self.loops[d]]
        rows = [i for d in space for i in self.loops[d]]
        body = _InGeneric(self, frozenset(order), loops)
        target = self.forms.strip(reduction.inner) if reduction else ref
        body.own = {target}
        last = self._write(target, body)
        return ScalarRef(body.close(last, rows, reduction), tuple(rows))

    def at_loops(self, ref: ScalarRef, index: Map) -> ScalarRef:
        """Rereads a tensor, matched at some loops, at those where the replacement reads it. Raises CannotPlace."""
        taken = iter([i for d in index for i in self.loops[d]])
        if sum(1 for at in ref.index if at != ZERO) != sum(len(self.loops[d]) for d in index):
            raise CannotPlace
        return ScalarRef(ref.value, tuple(ZERO if at == ZERO else next(taken) for at in ref.index))


class _Body:
    """An insertion point for scalar ops: `space` is the set of replacement loops, `own` what this body was made to compute."""

    def __init__(self, emitter: PatternEmitter, space: frozenset[int]) -> None:
        self.emitter, self.space = emitter, space
        self.known: dict[ScalarRef, ir.Value] = {}
        self.own: set[ScalarRef] = set()

    def ip(self) -> ir.InsertionPoint:
        """Returns where the next scalar op goes."""
        raise NotImplementedError

    def read(self, ref: ScalarRef) -> ir.Value:
        """Returns the scalar of a tensor at the loops of this body."""
        raise NotImplementedError

    def parameter(self, bound: PatternBinding, index: Map) -> ir.Value:
        """Returns the scalar that a parameter of the pattern is bound to."""
        raise NotImplementedError

    def constant(self, number: float) -> ir.Value:
        """Returns a constant of the replacement's type."""
        e = self.emitter
        return constant(ir.FloatAttr.get(e.type, number), ir.InsertionPoint(e.s.generic.op), e.loc)

    def op(self, node: ScalarNode, operands: Sequence[ir.Value]) -> ir.Value:
        """Copies an op of the pattern onto new operands."""
        old = node.op.results[0].type
        type_ = self.emitter.type if isinstance(old, ir.FloatType) else old
        return ir.Operation.create(
            node.name, [type_], operands, attributes_of(node.op), loc=self.emitter.loc, ip=self.ip()
        ).results[0]


class _InBody(_Body):
    """The body of the generic that holds the root."""

    def __init__(self, emitter: PatternEmitter, space: frozenset[int]) -> None:
        super().__init__(emitter, space)
        self.own = {emitter.forms.strip(emitter.function.root)}

    def ip(self) -> ir.InsertionPoint:
        """Returns a point before the root."""
        return ir.InsertionPoint(self.emitter.root)

    def read(self, ref: ScalarRef) -> ir.Value:
        """Reads through the scope of the generic that is rewritten."""
        e = self.emitter
        value = e.s.read(ref)
        assert value is not None
        return _cast(value, e.type, self.ip(), e.loc)

    def parameter(self, bound: PatternBinding, index: Map) -> ir.Value:
        """Returns the value that the parameter is bound to, or a narrower one if that is known. Raises CannotPlace."""
        e = self.emitter
        if e.env.loops:
            return self.read(e.at_loops(tensor_of(e.s, bound), index))
        for ref in (narrow(e.s, bound), bound.with_casts):
            value = e.s.use(ref, e.root) if ref is not None else None
            if value is not None:
                return _cast(value, e.type, self.ip(), e.loc)
        raise CannotPlace


class _InGeneric(_Body):
    """The body of a new generic; its operands are collected first and the op is created at the end."""

    def __init__(self, emitter: PatternEmitter, space: frozenset[int], loops: Sequence[int]) -> None:
        super().__init__(emitter, space)
        self.number = {loop: d for d, loop in enumerate(loops)}
        self.inputs: list[tuple[ir.Value, Map]] = []
        self.extents = [1] * len(self.number)
        # The block needs a region until the generic is created, when all its operands are known.
        self.holder = ir.Operation.create("builtin.module", regions=1, loc=emitter.loc)
        self.block = ir.Block.create_at_start(self.holder.regions[0], [], [])

    def ip(self) -> ir.InsertionPoint:
        """Returns the end of the body."""
        return ir.InsertionPoint(self.block)

    def read(self, ref: ScalarRef) -> ir.Value:
        """Returns the block argument of the tensor, which becomes an operand."""
        map_ = tuple(ZERO if at == ZERO else self.number[at] for at in ref.index)
        for d, n in zip(map_, sizes_of(ref.value.type), strict=True):
            if d != ZERO:
                self.extents[d] = n
        if (ref.value, map_) in self.inputs:
            arg: ir.Value = self.block.arguments[self.inputs.index((ref.value, map_))]
        else:
            self.inputs.append((ref.value, map_))
            arg = self.block.add_argument(ref.value.type.element_type, self.emitter.loc)
        return _cast(arg, self.emitter.type, self.ip(), self.emitter.loc)

    def parameter(self, bound: PatternBinding, index: Map) -> ir.Value:
        """Reads the value that the parameter is bound to as an operand."""
        e = self.emitter
        return self.read(e.at_loops(tensor_of(e.s, bound), index))

    def close(self, value: ir.Value, rows: Sequence[int], reduction: ReductionForm | None) -> ir.Value:
        """Creates the generic; returns its result over `rows`."""
        e, before, loops = self.emitter, self.emitter.s.generic.op, len(self.number)
        out_map = tuple(self.number[loop] for loop in rows)
        type_ = tensor_type([self.extents[d] for d in out_map], e.type)
        arg = self.block.add_argument(e.type, e.loc)
        if reduction is not None:
            value = ir.Operation.create(reduction.name, [e.type], [value, arg], loc=e.loc, ip=self.ip()).results[0]
        ir.Operation.create("linalg.yield", operands=[value], loc=e.loc, ip=self.ip())
        with e.loc, ir.InsertionPoint(before):
            into = empty(type_) if reduction is None else filled(type_, float(neutral_element(reduction.name, str(e.type))))
            operands = [*(tensor for tensor, _ in self.inputs), into]
            maps = [map_attribute(m, loops, before.context).value.results for m in (*(m for _, m in self.inputs), out_map)]
            op = generic(type_, operands, maps, loops, [d >= len(rows) for d in range(loops)])
        op.attributes[PATTERN] = ir.StringAttr.get(e.name)
        self.block.append_to(op.regions[0])
        return op.results[0]


def _cast(value: ir.Value, to: ir.Type, ip: ir.InsertionPoint, loc: ir.Location) -> ir.Value:
    return Emit(ip, loc).wrap(value).to(to).value


def narrow(s: RewriteScope, bound: PatternBinding) -> ScalarRef | None:
    """Returns the scalar bound to a parameter before widening casts, so that an f16 or bf16 tensor is read as it is."""
    ref = bound.with_casts
    while ref is not None:
        at = s.scalars.resolve(ref)
        node = s.scalars.node(at)
        if node is None or node.name != "arith.extf":
            return ref
        ref = node.args[0]
    return None


def tensor_of(s: RewriteScope, bound: PatternBinding) -> ScalarRef:
    """Returns a tensor that holds the scalar bound to a parameter. Raises CannotPlace."""
    for ref in (narrow(s, bound), bound.with_casts):
        found = ref and _held(s, ref)
        if found:
            return found
    raise CannotPlace


def _held(s: RewriteScope, ref: ScalarRef) -> ScalarRef | None:
    while ref is not None and not isinstance(ref.value.type, ir.RankedTensorType):
        further = s.scalars.step(ref) if isinstance(ref.value.owner, ir.Block) else s.yielded(ref)
        if further is None:
            return None
        ref = further
    return ref

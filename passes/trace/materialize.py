"""Decides which values of a function are materialized, by the cost of computing each of them again.

A value is materialized when something outside Lamina's kernels needs it (an external call, the return), when it is the result of a
reduction or scan, when it is reduced and computed from tensors in different orders, or when storing it moves fewer bytes than
computing it again for each of its users. Everything else is recomputed where it is used.
"""

import heapq
import math
from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.core.walks import reachable
from lamina.dialects.graph import IN_PLACE

from ..ir.affine import Affine, NotAffine, SplitAxis
from ..ir.axes import Axes, retry_with_splits
from ..ir.expressions import Expr, Load
from ..ir.extern_calls import memory_strides
from ..ir.reading import SCAN, SCATTER, SORT, Generic, Untraceable, bytes_of, elements_of, ops_in, producer, shape_of
from ..ir.views import SINGLE_VIEWS, through_views
from .costs import CHEAP, FREE, LANES, LARGEST, LAUNCH, REPEATED, SCALAR, SIMILAR, cost_of
from .gathered import gathered_source, gathers_from
from .memory_order import MemoryOrder
from .orders import behind_widening
from .placed import placed_parts
from .trace import Tracer
from .uses import OUTSIDE, Uses, broadcast_sources, repetitions, tensors_read


def _one_stride(offset: Affine, index: Affine) -> bool:
    """Returns whether a dimension that was split into the axes of `index` has a single stride in memory."""
    steps = [(offset.coefficient(axis), place) for axis, place in index.terms]
    return all(c * steps[0][1] == steps[0][0] * place for c, place in steps)


class Materialized:
    """The values of a block that get memory: `values`, in program order. `base(v)`: the memory a view of it reads. `balance`:
    operations that the machine does while it moves a byte (0: see Fuse). `mixed`: those of the values that are stored in another
    order than their sources, and the dimension that is innermost then (see mixed_orders)."""

    def __init__(
        self, block: ir.Block, generics: dict[ir.Operation, Generic], balance: int, must_store: dict[ir.Value, int]
    ) -> None:
        self.balance = balance
        self.ops = ops_in(block)
        self.position = {op: i for i, op in enumerate(self.ops)}
        self.generics = generics
        self.uses = Uses(self.ops, self.position)
        self.values: dict[ir.Value, None] = {}
        self.bases: dict[ir.Value, ir.Value] = {}
        self._inlined: dict[ir.Value, tuple[int, dict[ir.Value, int]]] = {}
        self._order = MemoryOrder(self.ops, self.generic) if balance else None
        self.mixed = self._order.stored if self._order is not None else must_store
        self._outside()
        self._inside()

    def is_memory(self, value: ir.Value) -> bool:
        """Returns whether a value is in memory: a materialized value, an argument, a call's result or a non-splat constant."""
        op = producer(value)
        if value in self.values or op is None or op.name in OUTSIDE:
            return True
        return op.name == "arith.constant" and not _is_splat(op)

    def needed_outside(self) -> set[ir.Value]:
        """Returns the memory that calls and results read, or that the caller sees change."""
        changed = {op.results[0] for op in self.ops if op.name == SCATTER and IN_PLACE in op.attributes}
        return {*self.bases.values(), *changed}

    def add(self, value: ir.Value) -> None:
        """Materializes a value."""
        self.values[value] = None

    def generic(self, op: ir.Operation) -> Generic | None:
        """Reads a linalg.generic, once; None if a map is not affine."""
        if op not in self.generics:
            if (read := Generic.read_affine(op)) is None:
                return None
            self.generics[op] = read
        return self.generics[op]

    def base(self, value: ir.Value) -> ir.Value:
        """Returns the deepest value behind a chain of views whose memory `value` can share with other strides."""
        sources = reversed([view.operands[0] for view in through_views(value, SINGLE_VIEWS)[0]])
        return next((source for source in sources if self._strided(value, source)), value)

    def _strided(self, value: ir.Value, source: ir.Value) -> bool:
        """Returns whether a value is a view of `source` that strides express."""
        axes = Axes(shape_of(value))

        def build() -> Expr:
            """Traces the value as an expression of the source."""
            return Tracer(lambda v: v == source, memory_strides, generics=self.generics).element(value, axes.index)

        try:
            e = retry_with_splits(build, axes)
        except (SplitAxis, NotAffine, Untraceable):
            return False
        return isinstance(e, Load) and not e.guard and all(_one_stride(e.offset, i) for i in axes.index)

    def _outside(self) -> None:
        """Materializes what ops outside of kernels read: calls and the return."""
        for op in self.ops:
            if op.name not in OUTSIDE:
                continue
            for v in op.operands:
                if not isinstance(v.type, ir.RankedTensorType):
                    continue
                source = self.bases[v] = self.base(v)
                defining = producer(source)
                if defining is not None and defining.name not in OUTSIDE and defining.name != "arith.constant":
                    self.add(source)

    def _inside(self) -> None:
        """Materializes what kernels read, where computing it again would cost more."""
        for op in self.ops:
            if op.name in OUTSIDE or not op.results or op.name == "tensor.empty":
                continue
            if op.name == SCATTER and not self.is_memory(op.operands[0]):
                self.add(op.operands[0])
            for v in op.results:
                if isinstance(v.type, ir.RankedTensorType) and (self.uses.has(v) or op.name == SCATTER):
                    self._decide(op, v)
        self.values = {v: None for op in self.ops for v in op.results if v in self.values}

    def _decide(self, op: ir.Operation, v: ir.Value) -> None:
        """Materializes a result of an op, or what it widens, if that is worth storing."""
        self._inlined[v] = self._cost(op)
        if v not in self.values and not self.is_memory(v) and self._worth_storing(op, v):
            stored = behind_widening(v)
            self.add(v if self.is_memory(stored) else stored)
            if stored != v:
                self._inlined[v] = self._cost(op)

    def _cost(self, op: ir.Operation) -> tuple[int, dict[ir.Value, int]]:
        """Returns the operations per element of computing `op` from memory, and the bytes that it reads of each value in memory:
        at most all, as reads of one value (its neighbors) meet in the cache. Scalars are computed once for all."""
        cost, read = cost_of(op), dict[ir.Value, int]()
        for v in dict.fromkeys(tensors_read(op)):
            if self.is_memory(v):
                read[v] = bytes_of(v)
            elif v in self._inlined:
                c, inner = self._inlined[v]
                cost += c if elements_of(v) > 1 or elements_of(op.results[0]) == 1 else 0
                read.update((w, min(read.get(w, 0) + n, bytes_of(w))) for w, n in inner.items())
        if op.name == "tensor.extract_slice":
            part, whole = elements_of(op.results[0]), max(elements_of(op.operands[0]), 1)
            read = {w: n * part // whole for w, n in read.items()}
        return cost, read

    def _worth_storing(self, op: ir.Operation, v: ir.Value) -> bool:
        """Returns whether a value should be stored once instead of computed by each kernel that reads it."""
        if op.name in SINGLE_VIEWS:
            return False
        if v in self.mixed or self._is_reduction(op):
            return True
        (cost, reads), users = self._inlined[v], self.uses.through_views(v)
        if cost > LARGEST or any(self._computes_again(u, t, v, cost) for u, t in users):
            return True
        if self.balance and len(users) > 1 and all(self._is_tap(u, v) for u in self.uses.inside(v)):
            return self._worth_storing_for_taps(v, cost)
        if self.balance and len(users) > 1 and (later := self._waiting_for_first(users)) and self._drop(v, len(users) - 1, later):
            return False
        read = sum(reads.values())
        if len(users) < 2 or (cost <= CHEAP and read <= SIMILAR * bytes_of(v)):
            return False
        if self.balance and self._is_placed(v, cost, read):
            return False
        if sources := self._worth_storing_instead(v):
            return self._worth_storing_still(op, v, sources)
        gathers = bool(self.balance) and all(gathers_from(u, t) for u, t in users)
        return not (gathers and self._is_cheap(v, (len(users) - 1) * cost, read))

    def _is_reduction(self, op: ir.Operation) -> bool:
        """Returns whether an op combines elements: those of its results are not computed one by one."""
        g = self.generic(op) if op.name == "linalg.generic" else None
        return op.name in (SCAN, SORT, SCATTER) or (op.name == "linalg.generic" and (g is None or any(g.reduced)))

    def _is_placed(self, v: ir.Value, cost: int, read: int) -> bool:
        """Returns whether kernels of other index spaces should compute `v` instead of reading it."""
        parts = placed_parts(v, self.uses.inside_alone, self.generic)
        repeats = len(parts.placed) + len(parts.others) - 1
        return bool(parts.placed) and (not repeats or self._is_cheap(v, repeats * cost, read))

    def _is_cheap(self, v: ir.Value, cost: int, read: int) -> bool:
        """Returns whether computing `v` again takes less time than storing it: operations per element, and bytes read."""
        return cost * elements_of(v) <= self.balance * bytes_of(v) and read <= SIMILAR * bytes_of(v)

    def _worth_storing_instead(self, v: ir.Value) -> list[ir.Value]:
        """Returns what may be stored in place of `v`, which is cheap to compute from it: on a GPU the value that it is gathered
        from, on a CPU costly values that it broadcasts."""
        if self.balance:
            source = gathered_source(v, self.is_memory, self.generic)
            return [] if source is None else [source]
        return [w for w in broadcast_sources(v, self.is_memory) if self._inlined[w][0] > FREE]

    def _worth_storing_still(self, op: ir.Operation, v: ir.Value, sources: list[ir.Value]) -> bool:
        """Stores what `v` is computed from, and returns whether `v` is then still worth storing."""
        for w in sources:
            self.add(w)
        first = min(self.position[w.owner] for w in sources)
        for between in self.ops[first + 1 : self.position[op] + 1]:
            costs = self._cost(between) if any(w in self._inlined for w in between.results) else (0, dict[ir.Value, int]())
            self._inlined.update((w, costs) for w in between.results if w in self._inlined)
        return self._worth_storing(op, v)

    def _waiting_for_first(self, users: Sequence[tuple[ir.Operation, ir.Value]]) -> list[ir.Operation]:
        """Returns the users that depend on the first one through a library call."""
        first, *others = sorted({u for u, _ in users}, key=self.position.__getitem__)
        return [u for u in others if self.uses.depends_through_call(u, first)]

    def _drop(self, v: ir.Value, repeats: int, later: Sequence[ir.Operation]) -> bool:
        """Makes several kernels compute `v`, with everything that is computed for it alone, where that takes less time than storing
        it: a channel's mean and the gate (squeeze and excitation). Returns False if it does not.

        repeats  how often it is computed again at most
        later    the users in other kernels than the first one's; what they read besides costs nothing
        """
        inner: dict[ir.Value, ir.Operation] = {}
        heap = [-self.position[v.owner]]
        while heap:
            op = self.ops[-heapq.heappop(heap)]
            new = [w for w in op.results if w not in inner and (w == v or not self.is_memory(w) or self._is_only_for(w, inner))]
            inner.update(dict.fromkeys(new, op))
            for made in filter(None, map(producer, tensors_read(op) if new else ())):
                heapq.heappush(heap, -self.position[made])
        outer = {w for op in inner.values() for w in tensors_read(op) if w not in inner and self.is_memory(w)}
        cost = sum(map(cost_of, inner.values()))
        beside = [set(self._sources([w for w in tensors_read(u) if w not in inner])) for u in later]
        extra = sum(bytes_of(w) for w in outer if not all(w in found for found in beside))
        if not self._is_cheap(v, repeats * cost, extra):
            return False
        for w in inner:
            self.values.pop(w, None)
        self._inlined[v] = cost, {w: bytes_of(w) for w in outer}
        return True

    def _is_only_for(self, w: ir.Value, inner: dict[ir.Value, ir.Operation]) -> bool:
        """Returns whether `w` is materialized only for values in `inner`, and need not be."""
        g = self.generic(w.owner) if w in self.values and w.owner.name == "linalg.generic" else None
        if g is None or any(g.reduced) or self.uses.outside(w):
            return False
        return all(r in inner for u in self.uses.inside(w) for r in u.results)

    def _worth_storing_for_taps(self, v: ir.Value, cost: int) -> bool:
        """Returns whether the taps of a window should read `v` from memory: bytes written and read, against operations that are
        repeated. The taps are one kernel, whose reads of the inputs meet in its cache."""
        taps = sum(elements_of(u.results[0]) for u in self.uses.inside(v))
        return cost * (taps - elements_of(v)) > self.balance * 2 * bytes_of(v)

    @staticmethod
    def _is_tap(user: ir.Operation, v: ir.Value) -> bool:
        """Returns whether this is a slice across most of `v`, as the taps of a window are and the parts of a split are not."""
        if user.name != "tensor.extract_slice":
            return False
        strides = list(ir.DenseI64ArrayAttr(user.attributes["static_strides"]))
        spans = [(typical(n) - 1) * max(s, 1) + 1 for n, s in zip(shape_of(user.results[0]), strides, strict=True)]
        return 2 * math.prod(spans) > elements_of(v)

    def _joins_reduction(self, v: ir.Value) -> bool:
        """Returns whether `v` is computed from one element each of reductions' results, and of values stored with them."""

        sources = self._sources([v])
        generics = [self.generic(w.owner) for w in sources if w in self.values and w.owner.name == "linalg.generic"]
        of_reductions = any(g is not None and any(g.reduced) for g in generics) and len(generics) == len(sources)
        return of_reductions and all(elements_of(w) == elements_of(v) for w in sources)

    def _sources(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the memory that values are computed from."""

        def before(w: ir.Value) -> list[ir.Value]:
            """Returns the values that a value is computed from; none if it is in memory."""
            return [] if self.is_memory(w) else tensors_read(w.owner)

        return [w for w in reachable(values, before) if self.is_memory(w)]

    def _computes_again(self, user: ir.Operation, shown: ir.Value, v: ir.Value, cost: int) -> bool:
        """Returns whether `user`, which reads `v` as `shown`, would compute it so often, or on a CPU so often as a scalar for the
        lanes of a few vectors, that it takes longer than reading it."""
        g = self.generic(user) if user.name == "linalg.generic" else None
        if g is None:
            return False
        inwards = None
        if self._order is not None and not any(g.reduced) and len(user.results) == 1:
            inwards = [i for d in self._order.inwards(user.results[0]) for i, _ in g.result_map[d][1]]
        again, at_once = repetitions(g, shown, inwards)
        limit = FREE if self.balance and self._joins_reduction(v) else CHEAP
        if cost > limit and again * (1 if self.balance else cost / limit) >= REPEATED:
            return True
        alone = not self.balance and at_once >= REPEATED and cost * LANES >= SCALAR * max(at_once, LANES)
        return alone and cost * elements_of(v) >= LAUNCH


def _is_splat(op: ir.Operation) -> bool:
    value = op.attributes["value"]
    return not isinstance(value, ir.DenseElementsAttr) or value.is_splat

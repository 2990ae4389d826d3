"""Finds the groups of a function's body: decides which values are materialized, and which of these each kernel computes."""

from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.errors import CompileError

from ..ir.locations import where
from ..ir.reading import Generic, Untraceable, producer
from ..trace.grouping import Group, Grouping
from ..trace.materialize import Materialized
from ..trace.nodes import GroupNode, trace_node
from .repeated import Repeated

_ROUNDS = 3  # times that values are dropped which kernels should rather compute again


@dataclass(frozen=True)
class Limits:
    """The limits within which groups are formed: the options of the pass (see Fuse).

    max_ops   values that one group stores, at most
    max_cost  operations per element up to which groups are merged
    balance   operations that the machine executes while it moves a byte; 0: a CPU
    """

    max_ops: int
    max_cost: int
    balance: int


def find_groups(block: ir.Block, limits: Limits, must_store: dict[ir.Value, int]) -> tuple[Materialized, list[Group]]:
    """Finds the groups of a function's body.

    Starts from the values that are certainly stored, traces the expression of each, and stores more values where an expression
    needs one in memory. Then a few rounds drop values that the kernels which read them should compute again, as long as this saves
    memory traffic: only groups show which values share a kernel.

    must_store  values that must be stored, see store_pooled

    Raises CompileError if a value cannot become a kernel.
    """
    generics: dict[ir.Operation, Generic] = {}
    materialized = Materialized(block, generics, limits.balance, must_store)
    nodes = _trace(materialized, {}, list(materialized.values))
    groups = _grouped(materialized, nodes, limits)
    for _ in range(_ROUNDS):
        repeated = Repeated(materialized, groups)
        dropped = repeated.values()
        if not dropped:
            break
        stored = dict(materialized.values)
        materialized.values = {v: None for v in stored if v not in dropped}
        stale = [v for v, n in nodes.items() if v not in dropped and not dropped.isdisjoint(n.reads)]
        remaining = _trace(materialized, {v: n for v, n in nodes.items() if v not in dropped}, stale)
        fewer = _grouped(materialized, remaining, limits)
        if Repeated(materialized, fewer).traffic() >= repeated.traffic():
            materialized.values = stored
            break
        nodes, groups = remaining, fewer
    return materialized, groups


def _grouped(materialized: Materialized, nodes: dict[ir.Value, GroupNode], limits: Limits) -> list[Group]:
    ordered = sorted(_needed(materialized, nodes), key=lambda n: (n.position, ir.OpResult(n.value).result_number))
    return Grouping(materialized, ordered, limits.max_ops, limits.max_cost).groups()


def _trace(materialized: Materialized, nodes: dict[ir.Value, GroupNode], pending: list[ir.Value]) -> dict[ir.Value, GroupNode]:
    """Traces the pending values, and those that turn out to be needed in memory; returns them with the nodes that are known."""
    position = {op: i for i, op in enumerate(materialized.ops)}
    while pending:
        value = pending.pop(0)
        op = producer(value)
        assert op is not None
        try:
            nodes[value] = trace_node(materialized, value, position[op])
        except Untraceable as e:
            if e.value == value or materialized.is_memory(e.value):
                raise CompileError(f"{op.name}: cannot be made a kernel: {e.why}", where=where(op.location)) from None
            materialized.add(e.value)
            stale = [v for v, n in nodes.items() if e.value in n.inlined]
            pending[:0] = [e.value, value, *stale]
    return nodes


def _needed(materialized: Materialized, nodes: dict[ir.Value, GroupNode]) -> list[GroupNode]:
    """Returns the nodes whose values are read. Tracing through views shows that some are not: a slice may leave out all that a pad
    puts in."""
    needed: dict[ir.Value, GroupNode] = {}
    pending = [v for v in materialized.needed_outside() if v in nodes]
    while pending:
        value = pending.pop()
        if value not in needed:
            needed[value] = nodes[value]
            pending += [v for v in nodes[value].reads if v in nodes]
    return list(needed.values())

"""Copies images to channels last before they are gathered or concatenated for a library call that takes channels last.

A gather that writes channels last from an image whose rows are innermost reads a whole sector for each element. The image is no
larger than the gathered result: stored once with channels last, neighboring threads read neighboring channels.
"""

from collections.abc import Callable, Iterable, Sequence

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.core.walks import reachable

from ..ir.extern_calls import is_external, memory_strides
from ..ir.generics import copied
from ..ir.reading import bytes_of, element_bits, elements_of, integer, ops_in, producer, shape_of
from .orders import Read, behind_views, chain_of, innermost_of, map_of, strides_through_views, wanted_images

_SECTOR = 256  # bits: the unit in which memory is read


def copy_gathered(block: ir.Block, read: Read) -> None:
    """Inserts a copy of each argument or call result that is gathered from in another order than the gather's result has, for the
    gather alone. The copy is a value that `orders_of` can store in the gather's order, in its narrowest type."""
    ops = ops_in(block)
    copies: dict[ir.Value, ir.Value] = {}
    for v, dim in gather_sources(ops, read).items():
        chain = chain_of(v, read)
        sources = list(map_of(chain[-1].owner, read) or ()) if chain else [v]
        source = sources[0]
        if len(sources) > 1 or not is_external(behind_views(source)) or shape_of(source) != shape_of(v):
            continue
        strides = strides_through_views(source, memory_strides)
        if strides is None or innermost_of(shape_of(source), strides) in (None, dim):
            continue
        if chain and min(map(element_bits, chain)) <= element_bits(source):
            continue
        users = [chain[-1].owner] if chain else [op for op in ops if _moves(op, v)]
        if source not in copies:
            copies[source] = copy_of(source, block, users[0].location)
        for user in users:
            replace_source(user, source, copies[source])


def gather_sources(ops: Sequence[ir.Operation], read: Read) -> dict[ir.Value, int]:
    """Returns the sources of gathers that are no larger than the result, and the parts of concatenations, each with the dimension
    that the library call behind them wants innermost. That dimension fills a sector at least. Elementwise ops and other gathers may
    stand between."""
    wanted: dict[ir.Value, int] = {}
    sources: dict[ir.Value, int] = {}
    for op in reversed(ops):
        for v, innermost in wanted_images(op).items():
            wanted.setdefault(v, innermost)
        dim = next((wanted[v] for v in op.results if v in wanted), None)
        if dim is None:
            continue
        if (gather := read_gather(op)) is not None:
            source, dims = gather
            if dim in dims and elements_of(source) <= elements_of(op.results[0]):
                sources[source] = wanted.setdefault(source, dims.index(dim))
            continue
        if op.name == "tensor.concat":
            sources.update({v: wanted.setdefault(v, dim) for v in op.operands})
            continue
        for v, loops in (map_of(op, read) or {}).items():
            if dim in loops:
                wanted.setdefault(v, loops.index(dim))
    return {v: dim for v, dim in sources.items() if typical(shape_of(v)[dim]) * element_bits(v) >= _SECTOR}


def gathered_source(v: ir.Value, is_memory: Callable[[ir.Value], bool], read: Read) -> ir.Value | None:
    """Returns the value, in its narrowest type, that `v` is computed from by gathers alone. It must be computed, not stored yet,
    and take at most half of the memory of `v`. Returns None if there is no such value, or more than one."""
    sources: dict[ir.Value, None] = {}

    def used(w: ir.Value) -> list[ir.Value]:
        """Returns the values that a value is computed from, and notes the sources that it gathers from."""
        gather = read_gather(w.owner)
        if gather and not is_memory(gather[0]) and not _gathers(gather[0], read):
            sources[gather[0]] = None
            return []
        return [x for x in ([gather[0]] if gather else map_of(w.owner, read) or ()) if not is_memory(x)]

    for _ in reachable([v], used):
        pass
    if len(sources) != 1:
        return None
    chain = chain_of(next(iter(sources)), read)
    source = min(chain, key=element_bits, default=None)
    if source is None or is_memory(source):
        return None
    return source if 2 * bytes_of(source) <= bytes_of(v) else None


def _gathers(v: ir.Value, read: Read) -> bool:
    """Returns whether a value is mapped from the result of a gather."""

    def sources(w: ir.Value) -> Iterable[ir.Value]:
        """Returns the values that a value is an elementwise function of."""
        op = producer(w)
        return map_of(op, read) or () if op is not None else ()

    defining = (producer(w) for w in reachable([v], sources))
    return any(op is not None and read_gather(op) is not None for op in defining)


def read_gather(op: ir.Operation) -> tuple[ir.Value, list[int | None]] | None:
    """Returns the tensor that a generic gathers from, and for each of its dimensions the loop that indexes it, or None if the
    index is computed. Returns None for any other op."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return None
    inner = ops_in(op.regions[0].blocks[0])
    extracts = [o for o in inner if o.name == "tensor.extract"]
    if len(extracts) != 1:
        return None
    loops = {o.results[0]: integer(o, "dim") for o in inner if o.name == "linalg.index"}
    source, *indices = extracts[0].operands
    return source, [loops.get(i) for i in indices]


def _moves(op: ir.Operation, v: ir.Value) -> bool:
    """Returns whether an op gathers from a value, or concatenates it."""
    return (op.name == "tensor.concat" and v in list(op.operands)) or gathers_from(op, v)


def gathers_from(op: ir.Operation, v: ir.Value) -> bool:
    """Returns whether an op reads a value where another one says."""
    gather = read_gather(op)
    return gather is not None and gather[0] == v


def copy_of(source: ir.Value, block: ir.Block, location: ir.Location) -> ir.Value:
    """Returns a linalg.generic that copies `source`, inserted behind its producer."""
    given = isinstance(source, ir.BlockArgument)
    with location, ir.InsertionPoint.at_block_begin(block) if given else ir.InsertionPoint.after(source.owner):
        return copied(source)


def replace_source(user: ir.Operation, source: ir.Value, copy: ir.Value) -> None:
    """Makes an op, and the extracts in its body, read the copy."""
    for op in (user, *(o.operation for region in user.regions for o in region.blocks[0].operations)):
        for i, operand in enumerate(op.operands):
            if operand == source:
                op.operands[i] = copy

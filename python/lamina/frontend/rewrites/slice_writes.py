"""Rewrites writes to slices of a graph's arguments as writes at indices, for graphs without gradients.

AOTAutograd makes `cache[:, 3:5] = keys` a computation of the whole cache, which is copied back after the call. A write at indices
is one that `updates` lets write into the argument.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from ..decompositions.ops.index import bounds
from ..decompositions.undecided import is_unbacked, surely
from ..fx.rewriter import copied

aten = torch.ops.aten

_WRITES = ("index_copy_", "index_put_", "index_add_", "scatter_", "scatter_add_", "scatter_reduce_")
_SHAPES = ("size", "dim", "stride", "numel", "storage_offset")


def open_slice_writes(gm: fx.GraphModule) -> None:
    """Replaces writes to slices of arguments in a graph that Dynamo captured, where nothing else changes the argument or reads it
    before."""
    changed = False
    for argument in gm.graph.find_nodes(op="placeholder"):
        writes = [user for user in argument.users if user.target is operator.setitem and user.args[0] is argument]
        if not writes or not all(map(_is_update, argument.users)):
            continue
        if any(_is_read(node, argument) for node in _before(writes[0])):
            continue
        for write in writes:
            write.target, changed = _set, True
    if changed:
        gm.recompile()


def with_index_writes(program: ExportedProgram) -> ExportedProgram:
    """Returns a program with the same change, itself if it has no such writes. There, they are copies to slices."""
    gm = copied(program.graph_module)
    order = {node: i for i, node in enumerate(gm.graph.nodes)}
    changed = False
    for argument in gm.graph.find_nodes(op="placeholder"):
        views = _parts_of(argument)
        writes = [w for view, index in views.items() if _is_part(index, argument) for w in view.users if _is_copy(w, view)]
        if not writes or not all(_is_update(user) for view in (argument, *views) for user in view.users if user not in writes):
            continue
        first = min(writes, key=order.__getitem__)
        on_the_way = {view for view in views if first in _reached(view, views)}
        if any(order[u] < order[first] and u not in on_the_way and isinstance(u.meta.get("val"), Tensor) for u in argument.users):
            continue
        for write in writes:
            _put(write, argument, views[write.args[0]])
            changed = True
    if not changed:
        return program
    gm.recompile()
    return program._update(gm, program.graph_signature)


def _parts_of(argument: fx.Node) -> dict[fx.Node, tuple[Any, ...]]:
    """Maps the slices of an argument, and slices of these, to the index that selects each, all with known bounds."""
    value = argument.meta.get("val")
    if not isinstance(value, Tensor) or not all(isinstance(n, int) for n in value.shape):
        return {}
    found: dict[fx.Node, tuple[Any, ...]] = {argument: tuple(slice(0, n) for n in value.shape)}
    for node in argument.graph.nodes:
        if node.target not in (aten.slice.Tensor, aten.select.int) or node.args[0] not in found:
            continue
        index = list(found[node.args[0]])
        numbers = [*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :]]
        dims = [d for d, entry in enumerate(index) if isinstance(entry, slice)]
        if node.kwargs or not all(n is None or isinstance(n, int) for n in numbers):
            continue
        if node.target is aten.slice.Tensor and numbers[3] != 1:
            continue
        d = dims[numbers[0]]
        inside = range(index[d].start, index[d].stop)
        index[d] = inside[numbers[1]] if node.target is aten.select.int else inside[numbers[1] : numbers[2]]
        if isinstance(index[d], range):
            index[d] = slice(index[d].start, index[d].stop)
        found[node] = tuple(index)
    del found[argument]
    return found


def _is_part(index: tuple[Any, ...], argument: fx.Node) -> bool:
    """Returns whether an index selects some elements, but not all."""
    slices = [entry for entry in index if isinstance(entry, slice)]
    return all(e.start < e.stop for e in slices) and index != tuple(slice(0, n) for n in argument.meta["val"].shape)


def _is_copy(write: fx.Node, view: fx.Node) -> bool:
    """Returns whether a node copies a tensor to a view."""
    if write.target not in (aten.copy_.default, aten.fill_.Tensor) or write.args[0] is not view:
        return False
    given, made = write.args[1].meta.get("val"), view.meta["val"]
    return isinstance(given, Tensor) and given.device == made.device and not given.is_complex() and not made.is_complex()


def _reached(view: fx.Node, views: Mapping[fx.Node, Any]) -> set[fx.Node]:
    """Returns the users of a view, and of the views of it."""
    return set(view.users) | {u for user in view.users if user in views for u in _reached(user, views)}


def _put(write: fx.Node, argument: fx.Node, index: tuple[Any, ...]) -> None:
    """Replaces a copy to a part of an argument by a write at indices."""
    target, source = argument.meta["val"], write.args[1]

    def emit(op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Inserts a call before the copy."""
        with write.graph.inserting_before(write):
            node = write.graph.call_function(op, args, kwargs)
        node.meta = dict(write.meta)
        with target.fake_mode:
            node.meta["val"] = op(*fx.map_arg(args, lambda n: n.meta["val"]), **kwargs)
        return node

    parts = [d for d, (entry, n) in enumerate(zip(index, target.shape, strict=True)) if entry != slice(0, n)]
    values = source if source.meta["val"].dtype is target.dtype else emit(aten._to_copy.default, source, dtype=target.dtype)
    values = emit(aten.expand.default, values, [e.stop - e.start for e in index if isinstance(e, slice)])
    numbers: list[fx.Node | None] = [None] * parts[0]
    for d, entry in enumerate(index):
        if not isinstance(entry, slice):
            values = emit(aten.unsqueeze.default, values, d)
        if parts[0] <= d <= parts[-1]:
            first, last = (entry.start, entry.stop) if isinstance(entry, slice) else (entry, entry + 1)
            number = emit(aten.arange.start, first, last, device=target.device)
            numbers.append(emit(aten.view.default, number, [-1] + [1] * (parts[-1] - d)))
    emit(aten.index_put_.default, argument, numbers, values)
    write.replace_all_uses_with(write.args[0])
    write.graph.erase_node(write)


def _before(write: fx.Node) -> Sequence[fx.Node]:
    nodes = list(write.graph.nodes)
    return nodes[: nodes.index(write)]


def _is_update(user: fx.Node) -> bool:
    """Returns whether a user does not change a tensor in place, or at indices alone."""
    target: Any = user.target
    name = target if isinstance(target, str) else getattr(target, "overloadpacket", target).__name__
    return not name.endswith("_") or name.endswith("__") or name in _WRITES


def _is_read(node: fx.Node, argument: fx.Node) -> bool:
    return argument in node.all_input_nodes and node.target not in _SHAPES and isinstance(node.meta.get("example_value"), Tensor)


def _set(x: Any, index: Any, value: Any) -> None:
    put = _as_indices(x, index, value)
    if put is None:
        x[index] = value
    else:
        aten.index_put_.default(x, *put)


def _as_indices(x: Any, index: Any, value: Any) -> tuple[list[Tensor | None], Tensor] | None:
    """Returns the indices and values of `x[index] = value`; None if that is not a write to a part of `x` between bounds."""
    entries = list(index) if isinstance(index, tuple) else [index]
    if not isinstance(x, Tensor) or x.is_complex() or any(t.requires_grad for t in (x, value) if isinstance(t, Tensor)):
        return None
    if not all(e is ... or _is_number(e) or (isinstance(e, slice) and e.step in (None, 1)) for e in entries):
        return None
    if any(is_unbacked(b) for e in entries for b in ((e.start, e.stop) if isinstance(e, slice) else (e,))):
        return None
    if at := [i for i, e in enumerate(entries) if e is ...]:
        entries[at[0] : at[0] + 1] = [slice(None)] * (x.dim() - len(entries) + 1)
    entries += [slice(None)] * (x.dim() - len(entries))
    ranges = [_range(e, size) for e, size in zip(entries, x.shape, strict=True)]
    whole = [surely(first == 0) and surely(last == n) for (first, last), n in zip(ranges, x.shape, strict=True)]
    parts = [d for d in range(x.dim()) if not whole[d]]
    sizes = [last - first for first, last in ranges]
    values = _spread(x, value, [n for n, e in zip(sizes, entries, strict=True) if isinstance(e, slice)])
    if not parts or values is None:
        return None
    for d, entry in enumerate(entries):
        values = values if isinstance(entry, slice) else values.unsqueeze(d)
    written = range(parts[0], parts[-1] + 1)
    numbers = [torch.arange(*ranges[d], device=x.device).view([-1] + [1] * (written[-1] - d)) for d in written]
    return [None] * parts[0] + numbers, values


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | torch.SymInt) and not isinstance(entry, bool)


def _range(entry: Any, size: Any) -> tuple[Any, Any]:
    if isinstance(entry, slice):
        return bounds(size, entry.start, entry.stop)
    first = entry + size if entry < 0 else entry
    return first, first + 1


def _spread(x: Tensor, value: Any, sizes: Sequence[Any]) -> Tensor | None:
    """Returns `value` in the dtype of `x`, expanded to these sizes; None where it may not have them."""
    if isinstance(value, int | float):
        return x.new_full((), value).expand(sizes)
    if not isinstance(value, Tensor) or value.device != x.device or value.is_complex() or value.dim() > len(sizes):
        return None
    if any(surely(n == 0) for n in sizes):
        return None
    pairs = zip(reversed(value.shape), reversed(sizes), strict=False)
    return value.to(x.dtype).expand(sizes) if all(surely(n == m) or surely(n == 1) for n, m in pairs) else None

"""Normalizes an FX graph for import: only tensors as arguments, each result once, no checks that static shapes have settled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx._lazy_graph_module import _LazyGraphModule

from lamina.core.errors import CompileError

from ..calls.interface import Interface
from ..calls.saved import decided_strides, free_results, own_results, roomy_results, set_decided_strides, shared_results
from ..complex_numbers.rewrite import as_real
from ..fx import support
from ..fx.aliases import classify
from ..fx.destination import moved
from ..fx.effects import drop_tokens
from ..fx.locations import where
from ..fx.random_bits import draw_together
from ..fx.rewriter import copied, insert, replace, substitute
from ..fx.sizes import elements, is_sized
from .branches import inline
from .checks import check_elements, guard_divisions
from .numbers import inline_sizes, place_numbers
from .updates import updates_of

aten = torch.ops.aten

WEIGHT = "lamina.weight"  # on a get_attr node: a weight that counts as a constant, whatever its size
# Checks of what the graph was traced for, which static shapes have settled, or which programs of symbolic sizes make themselves.
SETTLED = (
    aten._assert_tensor_metadata.default, aten._assert_scalar.default, aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
)  # fmt: skip
# Identities on values: `aliases` has read off what they alias in eager.
_IDENTITIES = (aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default, aten.lift.default)
# Constants with more elements become arguments; smaller ones are part of the module.
_INLINE = 1024


@dataclass(frozen=True)
class Normalized:
    """A normalized graph.

    gm         the graph: placeholders are tensors, outputs the bases of the interface's outputs
    interface  between the original graph and this one
    saved      outputs that only the backward graph reads, by number (see saved): each is a result of its own
    free       those of them that may have any strides: all, unless these were decided before
    shares     those that may lie in the memory of another one, with its number
    room       outputs that may have room between their rows, by number: each is a result of its own, too
    updates    outputs that are new values of arguments, by number, with the numbers of the tensors among the arguments
    """

    gm: fx.GraphModule
    interface: Interface
    saved: tuple[int, ...] = ()
    free: tuple[int, ...] = ()
    shares: Mapping[int, int] = field(default_factory=dict)
    room: tuple[int, ...] = ()
    updates: Mapping[int, int] = field(default_factory=dict)


def fold_weights(gm: fx.GraphModule, values: Mapping[int, Tensor]) -> fx.GraphModule:
    """Returns a copy of `gm` with the arguments of these numbers replaced by their values: constants of the program, which keep
    their values even if the tensors change later. The arguments stay, unused."""
    folded = copied(gm)
    graph = folded.graph
    for i, node in enumerate(graph.find_nodes(op="placeholder")):
        if i in values and isinstance(node.meta.get("val"), Tensor):
            name = f"folded_{i}"
            folded.register_buffer(name, values[i].detach().clone())
            with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
                constant = graph.get_attr(name)
            constant.meta = {**node.meta, WEIGHT: True}
            node.replace_all_uses_with(constant)
    folded.recompile()
    return folded


def normalize(gm: fx.GraphModule) -> Normalized:
    """Returns `gm` normalized; `gm` is not changed. Raises CompileError for sizes that depend on values, and for dtypes that have
    no code."""
    graph = fx.Graph()
    returned = graph.graph_copy(gm.graph, {})
    end = graph.output(tuple(returned) if isinstance(returned, list | tuple) else (returned,))
    drop_tokens(graph)
    set_decided_strides(graph, decided_strides(gm))
    inline(graph, gm)
    guard_divisions(graph)
    check_elements(graph)
    sized = is_sized(graph)
    for node in graph.nodes:
        _unwrap(node)
        if not sized and (node.users or node.op != "placeholder"):
            _check_static(node)
    _fill_empty(graph)
    draw_together(graph)
    arguments = graph.find_nodes(op="placeholder")
    inputs = [i for i, node in enumerate(arguments) if isinstance(node.meta.get("val"), Tensor)]
    tensors = [arguments[i] for i in inputs]
    for node in arguments:
        if not isinstance(value := node.meta.get("val"), Tensor):
            substitute(node, value)
    if sized:
        inline_sizes(graph)
        place_numbers(graph)
    _inline_numbers(graph, gm)
    captured = _capture(graph, gm, arguments[-1] if arguments else None, tensors)
    as_real(graph)
    outputs = classify(graph, [*end.args[0]], tensors)
    end.args = (outputs.bases,)
    _clean_up(graph)
    for node in graph.nodes:
        _check_dtype(node)
    result = _LazyGraphModule(gm, graph)  # generates its Python code, half the cost of this function, only when asked for it
    names = {node.name for node in moved(result)}
    ahead = tuple(i for i, node in enumerate(tensors) if node.name in names)
    interface = Interface(len(arguments), tuple(inputs), captured, outputs.outputs, ahead)
    saved = own_results(outputs, free_results(gm))
    free = () if decided_strides(gm) else saved
    shares = {i: j for i, j in shared_results(gm).items() if i in saved and j in saved}
    new_values = updates_of(gm)
    updates = {i: inputs.index(new_values[i]) for i in own_results(outputs, list(new_values))}
    return Normalized(result, interface, saved, free, shares, own_results(outputs, roomy_results(gm)), updates)


def _clean_up(graph: fx.Graph) -> None:
    """Erases arguments that are not tensors, identities, and nodes that nothing reads."""
    for node in reversed(list(graph.nodes)):
        if node.op == "placeholder" and not isinstance(node.meta.get("val"), Tensor):
            graph.erase_node(node)
        elif node.target in _IDENTITIES:
            replace(node, node.args[0])
        elif _is_unread(node):
            graph.erase_node(node)
        elif node.target is aten.as_strided.default:
            _expand_scalar(node)


def _expand_scalar(node: fx.Node) -> None:
    """Rewrites as_strided over memory of one element, as resize_ leaves it: torch-mlir indexes a scalar by nothing and ends the
    process."""
    source, value = node.args[0], node.meta["val"]
    memory = source.meta["val"]
    if elements(memory) != 1 or memory.untyped_storage().nbytes() != memory.element_size():
        return
    ones = [1] * value.dim()
    one = insert(node, memory.view(ones), aten.view.default, source, ones)
    replace(node, insert(node, value.new_empty(value.shape), aten.expand.default, one, list(value.shape)))


def is_inline(node: fx.Node, value: Tensor) -> bool:
    """Returns whether a tensor that the graph's module holds is a constant of the program: MLIR's attributes hold no other
    dtypes."""
    return value.dtype in support.COMPUTED and (value.numel() <= _INLINE or bool(node.meta.get(WEIGHT)))


def _fill_empty(graph: fx.Graph) -> None:
    """Replaces tensors without elements by constants: torch-mlir ends the process on some views of them (a division by zero)."""
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, Tensor) or elements(value) != 0 or support.has_effect(node):
            continue
        replace(node, insert(node, value, aten.full.default, list(value.shape), 0, dtype=value.dtype, device=value.device))


def _unwrap(node: fx.Node) -> None:
    """Unwraps the value of a constant that the trace recorded as a FunctionalTensor."""
    value = node.meta.get("val")
    if node.op == "get_attr" and isinstance(value, FunctionalTensor):
        node.meta["val"] = value.from_functional()


def _check_static(node: fx.Node) -> None:
    value = node.meta.get("val")
    for v in value if isinstance(value, list | tuple) else (value,):
        sizes = (*v.shape, *v.stride()) if isinstance(v, Tensor) else (v,)
        if any(isinstance(n, torch.SymInt | torch.SymFloat | torch.SymBool) for n in sizes):
            raise CompileError(
                f"the result of {node.target} depends on the values of tensors, not on their shapes alone",
                where=where(node),
                remedy='torch.compile(model, backend="lamina") breaks the graph there and runs that part in Python',
            )


def _check_dtype(node: fx.Node) -> None:
    value = node.meta.get("val")
    for v in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(v, Tensor) or v.dtype in support.CARRIED:
            continue
        if node.op == "call_function":
            raise CompileError(
                f"the result of {node.target} has dtype {v.dtype}",
                where=where(node),
                remedy="use another dtype, or do this outside the compiled function (after torch._dynamo.graph_break())",
            )
        name = node.name if node.op == "placeholder" else node.target
        raise CompileError(f"input {name} has dtype {v.dtype}", remedy="convert it outside the compiled function")


def _inline_numbers(graph: fx.Graph, gm: fx.GraphModule) -> None:
    """Writes constants of one element as aten.full: with torch 2.11, torch-mlir has no place for a literal of f64 without
    dimensions."""
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        value = attrgetter(str(node.target))(gm)
        if not isinstance(value, Tensor) or elements(value) != 1 or value.dtype.is_complex or value.dtype not in support.CARRIED:
            continue
        with unset_fake_temporarily():
            number = value.item()
        filled = insert(
            node, node.meta.get("val"), aten.full.default, list(value.shape), number, dtype=value.dtype, device=value.device
        )
        replace(node, filled)


def _capture(graph: fx.Graph, gm: fx.GraphModule, last: fx.Node | None, tensors: list[fx.Node]) -> tuple[str, ...]:
    """Replaces large tensor constants by placeholders after the arguments, and appends these to `tensors`. Returns their names."""
    captured: dict[str, fx.Node] = {}
    for node in [n for n in graph.nodes if n.op == "get_attr"]:
        value = attrgetter(str(node.target))(gm)
        if not isinstance(value, Tensor):
            raise CompileError(
                f"the graph holds a {type(value).__name__} for {' and '.join(str(user.target) for user in node.users)}",
                where=where(next(iter(node.users), node)),
                remedy="use torch.compile's graph breaks around it",
            )
        _check_dtype(node)
        if is_inline(node, value):
            continue
        if node.target not in captured:
            with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
                last = captured[str(node.target)] = graph.placeholder(f"captured_{len(captured)}")
            last.meta["val"] = node.meta.get("val", value)
            tensors.append(last)
        node.replace_all_uses_with(captured[str(node.target)])
    return tuple(captured)


def _is_unread(node: fx.Node) -> bool:
    """Returns whether a node may go: nothing reads it, and it does no more than compute, or check what is settled."""
    computes = node.target in SETTLED or not support.has_effect(node)
    return computes and not node.users and node.op in ("call_function", "get_attr")

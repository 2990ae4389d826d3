"""Python numbers among the arguments of a graph that Dynamo captured: folds them into constants, or passes floats as tensors.

An int is an argument itself. A float arrives as a scalar tensor of f64 on the CPU, on which the graph calls `item()`. A known
number becomes a constant. A float that changes from call to call stays a tensor: while AOTAutograd traces, torch turns arithmetic
on it into arithmetic on tensors. An op that needs it as a number in the end runs eagerly (see outside).
"""

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.source import AttrSource, LocalSource
from torch._dynamo.symbolic_convert import TensorifyState
from torch._guards import CompileContext, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from ..fx.rewriter import replace
from ..fx.size_expressions import backed_values
from ..fx.sizes import SYMBOLIC


def inline_sizes(graph: fx.Graph) -> None:
    """Replaces the nodes that compute sizes by the sizes themselves: a SymInt may stand among the arguments of a node. Quotients of
    floats that torch has made tensors get the name of division that other quotients have."""
    for node in reversed(list(graph.nodes)):
        if node.target is torch.ops.aten.true_divide.Tensor:
            node.target = torch.ops.aten.div.Tensor
        if node.op == "call_function" and isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool)):
            replace(node, node.meta["val"])


def place_numbers(graph: fx.Graph) -> None:
    """Moves tensors without dimensions that are made of numbers alone, which torch makes on the CPU, to the arguments' GPU."""
    arguments = [n.meta.get("val") for n in graph.find_nodes(op="placeholder")]
    like = next((v for v in arguments if isinstance(v, Tensor) and v.device.type == "cuda"), None)
    if like is None:
        return
    moved: set[fx.Node] = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, Tensor) or value.dim() or value.device.type != "cpu":
            continue
        if node.all_input_nodes and not moved.issuperset(node.all_input_nodes):
            continue
        moved.add(node)
        node.meta = {**node.meta, "val": like.new_empty([], dtype=value.dtype)}
        if "device" in node.kwargs or not node.all_input_nodes:
            node.kwargs = {**node.kwargs, "device": like.device}


def floats(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> list[int]:
    """Returns the positions of the arguments that stand for Python floats."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    return [i for i, (n, value) in enumerate(zip(placeholders, example_inputs, strict=True)) if _is_float(n, value)]


def _is_float(node: fx.Node, value: Any) -> bool:
    """Returns whether Dynamo made a tensor of a float for this argument."""
    made = getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
    return made and isinstance(value, Tensor) and value.dtype is torch.float64 and not value.dim()


_ON_NUMBERS = {operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pow}
_ON_TENSORS = {operator.add, operator.sub, operator.mul, operator.truediv, torch.add, torch.sub, torch.mul, torch.div}


def stays_argument(gm: fx.GraphModule, position: int) -> bool:
    """Returns whether the float at this position can change without another compilation: the caller passes it, and the graph only
    computes with it, which torch traces as arithmetic on tensors (torch.fx.passes._tensorify_python_scalars)."""
    placeholder = gm.graph.find_nodes(op="placeholder")[position]
    sources = _sources(placeholder)
    passed = bool(sources) and isinstance(sources[-1], LocalSource) and not any(isinstance(s, AttrSource) for s in sources)
    return passed and all(_only_computes(user) for user in _users(gm, placeholder) if _is_item(user))


def specialize(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Has Dynamo trace again with the floats that are attributes of objects, such as a norm's eps, as constants that it guards: as
    arguments, each becomes a tensor at every call. Does nothing if Dynamo compiles a frame again: an attribute may have changed,
    and would again."""
    compiled = CompileContext.current_compile_id()
    if compiled is None or compiled.frame_compile_id:
        return
    placeholders = gm.graph.find_nodes(op="placeholder")
    names = {symbol_of_float(placeholders[i]) for i in floats(gm, example_inputs) if _is_attribute(gm, placeholders[i])} - {None}
    if new := names - TensorifyState.force_specializations:
        TensorifyState.force_specializations |= new
        raise TensorifyScalarRestartAnalysis


def keep_floats(gm: fx.GraphModule) -> None:
    """Has torch take a graph's floats as they are, where Dynamo compiles again what it has captured: it cannot start over."""
    values = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    held = backed_values(torch._guards.detect_fake_mode(values).shape_env)
    TensorifyState.force_specializations |= {str(symbol) for symbol, value in held.items() if not value.is_Integer}


def _is_attribute(gm: fx.GraphModule, number: fx.Node) -> bool:
    """Returns whether a float is an object's attribute, and used as a number alone."""
    return any(isinstance(s, AttrSource) for s in _sources(number)) and all(map(_is_item, _users(gm, number)))


def _sources(number: fx.Node) -> list[Any]:
    """Returns where Dynamo found a float: the source itself, and what each is a part of."""
    sources: list[Any] = []
    source = getattr(number.meta.get("grapharg"), "source", None)
    while source is not None:
        sources.append(source)
        source = getattr(source, "base", None)
    return sources


def _only_computes(number: fx.Node) -> bool:
    """Returns whether a graph does nothing with a number but arithmetic with tensors and other numbers."""
    for user in number.users:
        if isinstance(user.meta.get("example_value"), Tensor):
            if user.target not in _ON_TENSORS:
                return False
        elif user.target not in _ON_NUMBERS or not _only_computes(user):
            return False
    return True


def symbol_of_float(node: fx.Node) -> str | None:
    """Returns the name of the symbol that torch gave to the float that an argument stands for."""
    memo = getattr(node.meta.get("example_value"), "item_memo", None)
    expr = None if memo is None else getattr(memo.node, "_expr", None)
    return getattr(expr, "name", None)


def _is_item(user: fx.Node) -> bool:
    return user.op == "call_method" and user.target == "item"


def _users(gm: fx.GraphModule, number: fx.Node) -> Iterator[fx.Node]:
    """Yields the users of an argument; in place of a call of another graph, such as a checkpoint's, the users there."""
    for user in number.users:
        inside = [(body, i) for _, body, i in _bodies(gm, user, number)]
        if not inside:
            yield user
        for body, i in inside:
            yield from _users(body, body.graph.find_nodes(op="placeholder")[i])


def _bodies(gm: fx.GraphModule, call: fx.Node, operand: fx.Node) -> Iterator[tuple[fx.Node, fx.GraphModule, int]]:
    """Yields the graphs that a call runs on `operand`: the node that names it, the graph, and the number of its argument.

    The graphs come before their operands, which are the call's last arguments.
    """
    named = [n for n in call.all_input_nodes if n.op == "get_attr" and isinstance(getattr(gm, str(n.target), None), fx.GraphModule)]
    operands = [value for value in pytree.tree_leaves(call.args) if value not in named]
    for node in named:
        body = getattr(gm, str(node.target))
        taken = len(body.graph.find_nodes(op="placeholder"))
        for i, value in enumerate(operands[len(operands) - taken :]):
            if value is operand:
                yield node, body, i


def with_constants(gm: fx.GraphModule, values: Mapping[int, float]) -> fx.GraphModule:
    """Returns `gm` without the arguments at these positions, with their numbers as constants."""
    new = _with_items(gm, values)
    placeholders = new.graph.find_nodes(op="placeholder")
    for i, number in values.items():
        if placeholders[i].users and isinstance(number, float):  # the tensor itself has users as well
            with new.graph.inserting_before(placeholders[i]):
                scalar = new.graph.call_function(torch.scalar_tensor, (number,), {"dtype": torch.float64})
            replace(placeholders[i], scalar)
        else:
            replace(placeholders[i], number)
    new.recompile()
    return new


def _with_items(gm: fx.GraphModule, values: Mapping[int, float]) -> fx.GraphModule:
    """Returns `gm` with numbers in place of the items of the arguments at these positions, in the graphs that it calls, too."""
    graph = fx.Graph()
    mapping: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, mapping))
    for node in graph.nodes:
        if node.meta.pop("unbacked_bindings", None):  # symbols of Dynamo's trace, whose names the next trace uses again
            node.meta.pop("example_value", None)
    new = fx.GraphModule(gm, graph)
    placeholders = new.graph.find_nodes(op="placeholder")
    inside: dict[tuple[fx.Node, fx.Node], dict[int, float]] = {}
    for i, number in values.items():
        for user in list(placeholders[i].users):
            if _is_item(user):
                replace(user, number)
            for named, _, argument in _bodies(new, user, placeholders[i]):
                inside.setdefault((user, named), {})[argument] = number
    for count, ((call, named), numbers) in enumerate(inside.items()):
        name = f"{named.target}_with_numbers_{count}"
        setattr(new, name, _with_items(getattr(new, str(named.target)), numbers))
        with new.graph.inserting_before(call):
            call.replace_input_with(named, new.graph.get_attr(name))
    new.recompile()
    return new


@contextmanager
def faked(args: Sequence[Any], changing: Collection[int] = ()) -> Iterator[list[Any]]:
    """Yields fake tensors for the arguments of a trace that fixes their sizes. changing: positions of floats that stay arguments;
    they are moved to the device of the other arguments."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    mode.allow_scalar_outputs = True
    device = device_of(args)
    with tracing(TracingContext(mode)):
        yield [_fake(mode, a.to(device) if i in changing else a) for i, a in enumerate(args)]


@contextmanager
def symbolic(graph: fx.Graph, args: Sequence[Any]) -> Iterator[list[Any]]:
    """Yields fake tensors for the arguments of a graph with symbolic sizes, with its symbols; see `faked`."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    mode = torch._guards.detect_fake_mode(values)
    with tracing(TracingContext(mode)):
        yield [
            value.detach().requires_grad_(arg.requires_grad) if isinstance(arg, Tensor) else arg
            for value, arg in zip(values, args, strict=True)
        ]


def writes_to_arguments() -> bool:
    """Returns whether the graph that AOTAutograd has just traced writes to an argument; True if that is not known."""
    context = TracingContext.try_get()
    found = None if context is None else context.fw_metadata
    return found is None or any(info.mutates_data or info.mutates_metadata for info in found.input_info)


def _fake(mode: FakeTensorMode, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    fake = mode.from_tensor(value, static_shapes=True)
    if type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided:  # views of it may reach all of the storage
        memory, whole = fake.untyped_storage(), value.untyped_storage().nbytes()
        if memory.nbytes() < whole:
            memory.resize_(whole)
    return fake


def device_of(args: Sequence[Any]) -> torch.device:
    """Returns the GPU of the first tensor that is on one, else the CPU."""
    return next((a.device for a in args if isinstance(a, Tensor) and a.device.type == "cuda"), torch.device("cpu"))

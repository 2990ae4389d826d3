"""A model as one flat graph, by torch.export: parameters and buffers are arguments, mutations and aliases are known."""

import dataclasses
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from lamina.core.errors import CompileError

from .aliases import storage
from .decompositions import Table, table
from .padded import leave_room
from .retrace import decomposed
from .trace_errors import explain
from .written_out import recognise


@dataclasses.dataclass(frozen=True)
class Slot:
    """One argument of a flat graph: a tensor of the model (`owner`: the dictionary that holds it, and its name there; `value`: as
    it was when traced), number `leaf` of the flattened inputs, or neither: a token, for which None is passed."""

    leaf: int = -1
    value: Tensor | None = None
    owner: tuple[dict[str, Any], str] | None = None


@dataclasses.dataclass(frozen=True)
class Traced:
    """
    module    what was exported
    program   the graph as eager runs it, with in-place ops
    slots     the arguments of program.graph, in order
    out_spec  the pytree of the outputs
    constants those of the flattened inputs that are no tensors, by number
    training  the module's mode
    """

    module: nn.Module
    program: ExportedProgram
    slots: tuple[Slot, ...]
    out_spec: pytree.TreeSpec
    constants: dict[int, Any]
    training: bool


@dataclasses.dataclass(frozen=True)
class Inference:
    """The functional graph without gradients.

    gm       outputs: first the new values of what the model changes, then the model's outputs
    slots    its arguments
    mutated  for each of the first outputs the index of the argument that gets it; None for what is no value
    """

    gm: fx.GraphModule
    slots: tuple[Slot, ...]
    mutated: tuple[int | None, ...]


def as_module(model: Callable[..., Any]) -> nn.Module:
    return model if isinstance(model, nn.Module) else _Function(model)


class _Function(nn.Module):
    """A function as a module. Modules it is bound to or closes over lend it their parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["function"] = _named_forward(function)
        owners = [
            getattr(function, "__self__", None),
            *(cell.cell_contents for cell in getattr(function, "__closure__", None) or ()),
        ]
        for i, owner in enumerate(owners):
            if isinstance(owner, nn.Module):
                self.add_module(f"closure_{i}", owner)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """That of the modules it uses."""
        return any(child.training for child in self.children())

    @training.setter
    def training(self, mode: bool) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["function"](*args, **kwargs)


def _named_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function under the name by which torch.export knows which frames of a stack trace are the model's."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        return function
    code = plain.__code__.replace(co_name="forward")
    renamed = types.FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    renamed.__kwdefaults__ = plain.__kwdefaults__
    return renamed if plain is function else types.MethodType(renamed, function.__self__)  # type: ignore[attr-defined]


def signature_of(model: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(model.forward if isinstance(model, nn.Module) else model)
    except (TypeError, ValueError):
        return None


def trace(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Traced:
    """CompileError, with the model's line, for a model that does not give one graph."""
    register((args, dict(kwargs)))
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.layout is not torch.strided:
            raise CompileError(f"an example input is a tensor of layout {leaf.layout}", remedy="convert it by to_dense()")
    try:
        with _registering(module), _quiet():
            program = torch.export.export(module, args, dict(kwargs), strict=False)
    except Exception as error:
        raise explain(error) from error
    constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
    return Traced(module, program, _slots(program, module), program.call_spec.out_spec, constants, module.training)


def inference(traced: Traced, decompositions: Table | None = None) -> Inference:
    """`traced` functionalised and decomposed, by our table unless another is given, with eager's aliases of inputs restored."""
    decompositions = table() if decompositions is None else decompositions
    try:
        with torch.no_grad(), _quiet():
            recognise(traced.program.graph_module)
            gm = decomposed(traced.program.graph_module, decompositions)
            functional = traced.program.run_decompositions(decompositions) if gm is None else traced.program
    except Exception as error:  # what its meta function accepts, a decomposition may refuse
        raise explain(error) from error
    if gm is not None:
        _restore_aliases(gm, traced.program, _names(traced.program), 0)
        return Inference(leave_room(gm), traced.slots, ())
    gm, specs = functional.graph_module, functional.graph_signature.output_specs
    slots = _slots(functional, traced.module)
    names = _names(functional)
    targets = {spec.target: i for i, spec in enumerate(functional.graph_signature.input_specs) if spec.target is not None}
    changes = [s for s in specs if s.kind is not OutputKind.USER_OUTPUT]
    places = {OutputKind.USER_INPUT_MUTATION: names, OutputKind.BUFFER_MUTATION: targets, OutputKind.PARAMETER_MUTATION: targets}
    mutated = tuple(places[s.kind][s.target] if s.kind in places else None for s in changes)
    _restore_aliases(gm, traced.program, names, len(changes))
    return Inference(leave_room(gm), slots, mutated)


def _names(program: ExportedProgram) -> dict[str, int]:
    """Numbers of the arguments of a program's graph."""
    return {spec.arg.name: i for i, spec in enumerate(program.graph_signature.input_specs) if hasattr(spec.arg, "name")}


def _slots(program: ExportedProgram, module: nn.Module) -> tuple[Slot, ...]:
    slots, leaf = [], 0
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            slots.append(Slot(leaf))
            leaf += 1
            continue
        if spec.target is None:
            slots.append(Slot())
            continue
        path, _, name = spec.target.rpartition(".")
        owner = _owner(module, path, name)
        value = owner[0][owner[1]] if owner is not None else program.constants[spec.target]
        slots.append(Slot(-1, value, owner))
    return tuple(slots)


def _owner(module: nn.Module, path: str, name: str) -> tuple[dict[str, Any], str] | None:
    try:
        holder = module.get_submodule(path)
    except AttributeError:
        return None
    for place in (holder._parameters, holder._buffers, holder.__dict__):
        if isinstance(place.get(name), Tensor):
            return place, name
    return None


def _restore_aliases(gm: fx.GraphModule, program: ExportedProgram, names: dict[str, int], first: int) -> None:
    """An output that shares an input's memory in eager becomes a view of that input in the functional graph."""
    holders = {storage(n.meta["val"]): n for n in _placeholders(program.graph) if isinstance(n.meta.get("val"), Tensor)}
    eager = _returned(program.graph)
    output = gm.graph.output_node()
    outputs = list(output.args[0])
    inputs = _placeholders(gm.graph)
    for i, node in enumerate(eager):
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if not isinstance(value, Tensor) or storage(value) not in holders or not isinstance(outputs[first + i], fx.Node):
            continue
        held = holders[storage(value)]
        base = inputs[names[held.name]]
        offset = value.storage_offset() - held.meta["val"].storage_offset() + base.meta["val"].storage_offset()
        with gm.graph.inserting_before(output):
            args = (base, list(value.shape), list(value.stride()), int(offset))
            view = gm.graph.call_function(torch.ops.aten.as_strided.default, args)
        view.meta = {**outputs[first + i].meta, "val": base.meta["val"].as_strided(*args[1:])}
        outputs[first + i] = view
    output.args = (tuple(outputs),)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _placeholders(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _returned(graph: fx.Graph) -> list[Any]:
    returned = graph.output_node().args[0]
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def register(value: Any) -> None:
    """Makes the dataclasses in a value known to pytree, which takes apart only types it knows."""
    if isinstance(value, list | tuple):
        for item in value:
            register(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            register(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            register(getattr(value, field.name, None))
        if type(value) not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch.export gives of its own use of a deprecated class."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        yield


class _registering:
    """While tracing, registers what the module returns."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __enter__(self) -> None:
        self.hook = self.module.register_forward_hook(lambda module, args, output: register(output))

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

"""Captures a model as one flat aten graph by torch.export.

Parameters and buffers become arguments; mutations and aliases are known. `trace` gives the graph as eager runs it, `inference` the
functional, decomposed graph without gradients.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, fx, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from lamina.core.errors import CompileError
from lamina.core.target import Target

from ..attention.block_lists import drop_block_lists
from ..attention.recognize import recognize
from ..calls.saved import with_room
from ..decompositions.table import Table, table
from ..fx.aliases import storage, view_of
from ..fx.sizes import raw_sizes
from ..rewrites.slice_writes import with_index_writes
from .as_module import Holder
from .assigned import Assignments
from .autograd_functions import custom_functions_as_nodes
from .example_inputs import register, registering, without_shared_memory
from .foreign import Foreign
from .frames import in_one_chunk
from .module_state import Place, has_global_hooks
from .open_sizes import OpenDims, automatic_dims, shapes_collection
from .regions import in_callers_autocast, without_grad_modes, without_region_graphs
from .retrace import decomposed
from .size_relations import SizeRelations
from .trace_errors import explain, is_of_sizes
from .whole import WRONG, kept_composite


@dataclasses.dataclass(frozen=True)
class TensorSlot:
    """One argument of a flat graph: a tensor of the model, a leaf of the inputs, or neither (a token, for which None is passed).

    leaf   its number among the flattened inputs; -1 for none
    value  the model's tensor, as it was when traced
    owner  the dictionary that holds this tensor, and its name there
    """

    leaf: int = -1
    value: Tensor | None = None
    owner: Place | None = None


@dataclasses.dataclass(frozen=True)
class Traced:
    """A captured model.

    module    what was exported
    program   the graph as eager runs it, with in-place ops
    slots     the arguments of program.graph, in order
    out_spec  the pytree of the outputs
    constants the flattened inputs that are not tensors, by number
    grad      whether it was traced in grad mode
    assigned  attributes that forward assigns tensors to; their values follow the outputs
    others    modules that forward calls and that are not submodules of the model
    foreign   tensors that forward uses and that no module holds
    """

    module: nn.Module
    program: ExportedProgram
    slots: tuple[TensorSlot, ...]
    out_spec: pytree.TreeSpec
    constants: dict[int, Any]
    grad: bool
    assigned: tuple[Place, ...] = ()
    others: tuple[nn.Module, ...] = ()
    foreign: Foreign = dataclasses.field(repr=False, kw_only=True)


@dataclasses.dataclass(frozen=True)
class Inference:
    """The functional graph without gradients.

    gm       outputs: first the new values of what the model mutates, then the model's outputs
    slots    its arguments
    mutated  for each of the first outputs the index of the argument that receives it; None for one that is not a value
    """

    gm: fx.GraphModule
    slots: tuple[TensorSlot, ...]
    mutated: tuple[int | None, ...]


@in_one_chunk
def trace(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], open_dims: Mapping[int, OpenDims] | None = None
) -> Traced:
    """Captures what a call would do in this thread's grad mode and autocast state.

    open_dims  the dimensions that stay symbols, by the number of the flattened input

    Arguments that are one object are one in the graph. Arguments that share memory otherwise, with each other or with the model,
    are replaced by tensors of their own. Raises CompileError, with the model's line, for a model that does not give one graph.
    """
    register((args, dict(kwargs)))
    args, kwargs = without_shared_memory(module, args, kwargs)
    traced = _exported(module, args, kwargs, open_dims or {})
    others = traced.foreign.modules
    if not others:
        return traced
    whole = _exported(Holder(module, others), args, kwargs, open_dims or {})
    return dataclasses.replace(whole, others=tuple(others))  # their state is the model's


def _exported(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], open_dims: Mapping[int, OpenDims]) -> Traced:
    """Traces a model by torch.export, and finds where the tensors are that its graph takes. Raises CompileError."""
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.layout is not torch.strided:
            raise CompileError(f"an example input is a tensor of layout {leaf.layout}", remedy="convert it by to_dense()")
    grad = torch.is_grad_enabled()
    _check_hooks(module, grad)
    assignments, foreign = Assignments(module), Foreign(module)
    try:
        with ExitStack() as during:
            functions = custom_functions_as_nodes() if grad else ExitStack()
            for one in (
                registering(module),
                assignments,
                in_callers_autocast(module),
                foreign,
                functions,
                without_region_graphs(),
                _quiet(),
            ):
                during.enter_context(one)
            shapes = shapes_collection(leaves, open_dims)
            program = torch.export.export(module, args, dict(kwargs), dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise explain(error, _deciding_line(module, args, kwargs, open_dims) if is_of_sizes(error) else "") from error
    if any(isinstance(value, Tensor) and is_functorch_wrapped_tensor(value) for value in program.constants.values()):
        raise CompileError(
            "torch.export makes a constant of what torch.func.grad differentiates",
            remedy='use torch.compile(model, backend="lamina")',
        )
    drop_block_lists(program.graph_module)
    program._example_inputs = None  # they would live as long as the compiled model
    constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)}
    foreign.forget(value for value in program.constants.values() if isinstance(value, Tensor))
    slots = _slots(program, module, foreign)
    _drop_copies(program.graph, slots, assignments.places)
    spec = program.call_spec.out_spec
    return Traced(module, program, slots, spec, constants, grad, tuple(assignments.places), foreign=foreign)


def _deciding_line(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], open_dims: Mapping[int, OpenDims]) -> str:
    """Returns the model's line that decides by an open size, which torch.export refuses unless the dimension is Dim.AUTO."""
    free = {i: automatic_dims(dims) for i, dims in open_dims.items()}
    if free == open_dims:
        return ""
    try:
        return SizeRelations.of(_exported(module, args, kwargs, free).program.graph).deciding_line()
    except CompileError:
        return ""


def _drop_copies(graph: fx.Graph, slots: Sequence[TensorSlot], places: Sequence[Place]) -> None:
    """Removes torch.export's copies of assigned tensors into the old buffers: eager leaves the old buffers' memory alone."""
    returned = graph.output_node().args[0]
    new = {(id(held), name): value for (held, name), value in zip(reversed(places), reversed(returned), strict=False)}
    owners = dict(zip(graph.find_nodes(op="placeholder"), (slot.owner for slot in slots), strict=True))
    for node in reversed(list(graph.nodes)):
        owner = owners.get(node.args[0]) if node.target is torch.ops.aten.copy_.default and not node.users else None
        if owner is not None and new.get((id(owner[0]), owner[1])) is node.args[1]:
            graph.erase_node(node)


def _check_hooks(module: nn.Module, grad: bool) -> None:
    if has_global_hooks():
        raise CompileError("torch has hooks for all modules, which a graph does not keep", remedy="remove them while compiling")
    for name, child in module.named_modules() if grad else ():
        if child._backward_hooks or child._backward_pre_hooks:
            raise CompileError(
                f"the module {name or type(child).__name__!r} has backward hooks, which a graph does not keep",
                remedy='use torch.compile(model, backend="lamina"), or hooks on parameters',
            )


@in_one_chunk
def inference(traced: Traced, decompositions: Table | None = None, target: str | Target | None = None) -> Inference:
    """Functionalizes and decomposes `traced`, with eager's aliases of inputs restored.

    decompositions  the table; Lamina's unless another is given
    target          what it is compiled for; None for the device of its tensors
    """
    with _quiet(), kept_composite(*WRONG):
        return _inference(traced, table() if decompositions is None else decompositions, target)


def _inference(traced: Traced, decompositions: Table, target: str | Target | None) -> Inference:
    """Decomposes a traced graph for calls without gradients; functionalizes it if it mutates an input."""
    try:
        with torch.no_grad():
            program = with_index_writes(without_grad_modes(traced.program))
            recognize(program.graph_module, target=target)
            gm = decomposed(program.graph_module, decompositions)
            functional = program.run_decompositions(decompositions) if gm is None else program
    except Exception as error:  # a decomposition may refuse what the op's meta function accepts
        raise explain(error) from error
    if gm is not None:
        _restore_aliases(gm, traced.program, _names(traced.program), 0)
        return Inference(with_room(gm), traced.slots, ())
    gm, specs = functional.graph_module, functional.graph_signature.output_specs
    slots = _slots(functional, traced.module, traced.foreign)
    names = _names(functional)
    targets = {spec.target: i for i, spec in enumerate(functional.graph_signature.input_specs) if spec.target is not None}
    changes = [s for s in specs if s.kind is not OutputKind.USER_OUTPUT]
    places = {OutputKind.USER_INPUT_MUTATION: names, OutputKind.BUFFER_MUTATION: targets, OutputKind.PARAMETER_MUTATION: targets}
    mutated = tuple(places[s.kind][s.target] if s.kind in places else None for s in changes)
    _restore_aliases(gm, traced.program, names, len(changes))
    return Inference(with_room(gm), slots, mutated)


def _names(program: ExportedProgram) -> dict[str, int]:
    """Maps the names of a program's arguments to their numbers."""
    return {spec.arg.name: i for i, spec in enumerate(program.graph_signature.input_specs) if hasattr(spec.arg, "name")}


def _slots(program: ExportedProgram, module: nn.Module, foreign: Foreign) -> tuple[TensorSlot, ...]:
    """Returns where each input of a program comes from: a leaf of the arguments, the model, or elsewhere."""
    slots, leaf = [], 0
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            slots.append(TensorSlot(leaf))
            leaf += 1
            continue
        if spec.target is None:
            slots.append(TensorSlot())
            continue
        path, _, name = spec.target.rpartition(".")
        owner = _owner(module, path, name)
        value = owner[0][owner[1]] if owner is not None else foreign.tensor(program.constants[spec.target])
        slots.append(TensorSlot(-1, value, owner))
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
    """Makes each output that shares an input's memory in eager a view of that input in the functional graph."""
    holders = {
        storage(n.meta["val"]): n for n in program.graph.find_nodes(op="placeholder") if isinstance(n.meta.get("val"), Tensor)
    }
    eager = program.graph.output_node().args[0]
    output = gm.graph.output_node()
    outputs = list(output.args[0])
    inputs = gm.graph.find_nodes(op="placeholder")
    for i, node in enumerate(eager):
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if not isinstance(value, Tensor) or storage(value) not in holders or not isinstance(outputs[first + i], fx.Node):
            continue
        held = holders[storage(value)]
        base = inputs[names[held.name]]
        with gm.graph.inserting_before(output):
            view = view_of(gm.graph, base, held.meta["val"], value)
        view.meta = {**outputs[first + i].meta, "val": view.meta["val"]}
        outputs[first + i] = view
    output.args = (tuple(outputs),)
    gm.graph.eliminate_dead_code()
    gm.recompile()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences torch.export's warnings of its own use of a deprecated class, and of attributes, which `assigned` handles."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        warnings.filterwarnings("ignore", message="The tensor attribute", category=UserWarning)
        with raw_sizes():
            yield

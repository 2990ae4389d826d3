"""Queries, splits and translates modules of kernels at the tile level, at the gpu level and lowered."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import llvm
from torch_mlir.passmanager import PassManager

from lamina.core.binding.later import LaterKernel
from lamina.core.errors import CompileError
from lamina.passes.ir.locations import sources
from lamina.passes.ir.reading import name_of, nested, ops_in
from lamina.passes.plan.launches import alignments, launched_alone
from lamina.passes.tile.ranges.size_range import LATER, launches_of
from lamina.passes.tile.tile import TILED_LATER

from .clock import Stopwatch


def to_llvm(module: ir.Module, pipeline: str, clock: Stopwatch, checked: Callable[[ir.Module], ir.Operation]) -> str:
    """Lowers a module to the llvm dialect by upstream's passes, and returns the text of what `checked` finds in it.

    checked  returns the op to translate; raises CompileError for ops on which translation would end the process
    """
    with clock.stage("to llvm dialect"):
        manager = PassManager.parse(f"builtin.module({pipeline})")
        manager.enable_verifier(False)  # it runs after each pass, for half of their time; once at the end is enough
        manager.run(module.operation)
    with clock.stage("translate"):
        found = checked(module)
        module.operation.verify()
        return str(llvm.translate_module_to_llvmir(found))


def split(module: ir.Module, count: int) -> list[ir.Module]:
    """Deals a module's tile programs out to at most `count` modules, the given one first. A module at the gpu level stays whole.
    Neighbors go to different modules: they are often alike, and take equally long."""
    programs = ops_in(module.body)
    if not all("tile.grid" in op.attributes for op in programs):
        return [module]
    with module.context, ir.Location.unknown():
        others = [ir.Module.create() for _ in range(min(count, len(programs)) - 1)]
        for i, program in enumerate(programs):
            if place := i % (len(others) + 1):
                others[place - 1].body.append(program)
    return [module, *others]


def keep_kernels(module: ir.Module) -> None:
    """Erases the host program, which has been read, from a module; the tile programs stay."""
    for op in ops_in(module.body, "plan.program"):
        op.erase()


def take_later(module: ir.Module) -> tuple[LaterKernel, ...]:
    """Removes the kernels that are compiled when a call first needs them from a module at the plan or the tile level, and returns
    them."""
    kernels = _as_later([op for op in ops_in(module.body) if TILED_LATER in op.attributes])
    planned = [op for op in ops_in(module.body) if LATER in op.attributes]
    aligned = alignments(module) if planned else {}
    for op in planned:
        name = name_of(op)
        del op.attributes[LATER]
        alone = launched_alone(launches_of(module, name)[0], op, aligned[name])
        kernels.append(LaterKernel(name, alone.operation.get_asm(enable_debug_info=True), False))
    return tuple(kernels)


def programs_as_later(module: ir.Module) -> list[LaterKernel]:
    """Removes all tile programs from a module, and returns them as kernels to compile when a call first needs them."""
    return _as_later([op for op in ops_in(module.body) if "tile.grid" in op.attributes])


def _as_later(programs: list[ir.Operation]) -> list[LaterKernel]:
    found = [LaterKernel(name_of(op), op.get_asm(enable_debug_info=True), True) for op in programs]
    for op in programs:
        op.erase()
    return found


def device_module(module: ir.Module) -> ir.Operation:
    """Returns the gpu.module of a module. Raises CompileError if there is none."""
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            return op.operation
    raise CompileError("there is no gpu.module in this module", remedy="write one, or tile programs with tile.threads")


def has_programs(module: ir.Module) -> bool:
    """Returns whether a module holds tile programs, or the gpu.module that they are lowered to."""
    return any("tile.grid" in op.operation.attributes or op.operation.name == "gpu.module" for op in module.body.operations)


def programs_of(module: ir.Module) -> list[str]:
    """Returns the names of the kernels, at the tile level or as functions of a gpu.module."""
    names: list[str] = []
    for op in module.body.operations:
        if "tile.grid" in op.operation.attributes:
            names.append(name_of(op.operation))
        elif op.operation.name == "gpu.module":
            functions = ops_in(op.operation.regions[0].blocks[0])
            names += [name_of(f) for f in functions if "kernel" in f.attributes]
    return names


def lines_of(module: ir.Module, kernel: str) -> list[str]:
    """Returns the model's source lines that a kernel was made of."""
    if not any(op.operation.name == "gpu.module" for op in module.body.operations):
        return []
    functions = [op.operation for op in device_module(module).regions[0].blocks[0].operations]
    kernels = [f for f in functions if "sym_name" in f.attributes and name_of(f) == kernel]
    return list(dict.fromkeys(line for f in kernels for op in nested(f) for line in sources(op.location)))


def kernel_at(source: str, line: int) -> str:
    """Returns the kernel that a line of PTX, counted from 1, is in, or ""."""
    name = ""
    for text in source.split("\n")[:line]:
        if ".entry " in text:
            name = text.partition(".entry ")[2].partition("(")[0].strip()
    return name

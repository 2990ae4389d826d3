"""Writes the kernels of horizontal fusion, as functions with a `tile.part` for each kernel that they join, and their launches."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from lamina.core.sizes import Size, SizeLike

from ..ir.locations import fused
from ..ir.reading import element_of, integer, name_of, number_of, ops_in
from ..ir.rewriting import replace_op
from ..ir.sizes import KERNEL_SIZES, i64, kernel_size, load_size, read_sizes, size_attribute, size_on
from ..lower.simt.parts import PART
from ..plan.outline import pairs_attribute, unique
from .cost import SmallKernel
from .steps import PlannedStep

NAMED = 2  # kernels that the name of a joined function lists, at most


_Parts = dict[SmallKernel, list[list[int]]]
"""The launches of each kernel, each as the numbers of its buffers among the joined function's."""


@dataclass(frozen=True)
class _Launch:
    """A plan.launch with the kernel that it runs."""

    op: ir.Operation
    kernel: SmallKernel

    @property
    def read(self) -> list[ir.Value]:
        """The memory of its arguments."""
        return list(self.op.operands)[: -integer(self.op, "n_out")]

    @property
    def written(self) -> list[ir.Value]:
        """The memory of its results, which one computed in place shares with an argument."""
        return list(self.op.operands)[-integer(self.op, "n_out") :]


class Writer:
    """Joins launches. Bundles that launch the same kernels, and share buffers among them in the same way, share one function."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.names = {name_of(op) for op in module.body.operations if "sym_name" in op.attributes}
        self.made: dict[tuple[object, ...], str] = {}

    def join(self, steps: Sequence[PlannedStep], kernels: Sequence[SmallKernel]) -> ir.Operation:
        """Creates one launch in place of several; the caller moves it into order and erases them."""
        launches = [_Launch(step.op, kernel) for step, kernel in zip(steps, kernels, strict=True)]
        # kernels whose CTAs take longest come first, to start first; those with a symbolic number of programs come last
        launches.sort(key=lambda x: (x.kernel.symbolic, -x.kernel.seconds / x.kernel.shape.ctas(x.kernel.grid)))
        ins = dict.fromkeys(v for x in launches for v in x.read)
        outs = [v for x in launches for v in x.written]
        buffers = [*ins, *outs]
        read, written = {v: i for i, v in enumerate(ins)}, {v: i for i, v in enumerate(outs, start=len(ins))}
        numbers_of = {x.op: [read[v] for v in x.read] + [written[v] for v in x.written] for x in launches}
        parts: _Parts = {}
        for x in launches:
            parts.setdefault(x.kernel, []).append(numbers_of[x.op])
        location = fused(x.op.location for x in launches)
        label = _label([ir.StringAttr(x.op.attributes["label"]).value for x in launches])
        key = tuple((k.name, *map(tuple, uses)) for k, uses in parts.items())
        if key not in self.made:
            self.made[key] = self._name(parts)
            with location:
                _function(self.made[key], parts, [v.type for v in buffers], len(outs))
        attributes: dict[str, ir.Attribute] = {
            "kernel": ir.FlatSymbolRefAttr.get(self.made[key]), "n_out": i64(len(outs)), "label": ir.StringAttr.get(label),
        }  # fmt: skip
        inplace = [(numbers_of[x.op][i], numbers_of[x.op][o]) for x in launches for i, o in x.op.attributes.get("inplace", ())]
        if inplace:
            attributes["inplace"] = pairs_attribute(inplace)
        ip = ir.InsertionPoint(launches[0].op)
        return ir.Operation.create("plan.launch", operands=buffers, attributes=attributes, loc=location, ip=ip)

    def _name(self, parts: _Parts) -> str:
        words = [k.name if len(uses) == 1 else f"{k.name}_x{len(uses)}" for k, uses in parts.items()]
        more = [f"{len(words) - NAMED}_more"] if len(words) > NAMED else []
        return unique("_and_".join(words[:NAMED] + more), self.names)


def drop_unused(kernels: Sequence[SmallKernel], program: ir.Operation) -> None:
    """Erases the functions of `kernels` that the program does not launch any more."""
    launches = ops_in(program.regions[0].blocks[0], "plan.launch")
    launched = {ir.FlatSymbolRefAttr(op.attributes["kernel"]).value for op in launches}
    for kernel in dict.fromkeys(kernels):
        if kernel.name not in launched:
            kernel.function.erase()


def _label(labels: Sequence[str]) -> str:
    """Joins labels, without the numbers that distinguish groups of the same name."""
    labels = [re.sub(r"_\d+$", "", label) for label in labels]
    return ", ".join(label if n == 1 else f"{n} x {label}" for label, n in Counter(labels).items())


def _function(name: str, parts: _Parts, types: list[ir.Type], outputs: int) -> None:
    """Writes a function that runs all launches of some kernels. types: those of its buffers; outputs: how many are results."""
    first = next(iter(parts))
    sizes = _sizes(parts)
    if sizes:
        parts, types = _with_sizes(parts, types, len(sizes))
    cta = max(k.cta for k in parts)
    ctas: SizeLike = 0
    with ir.InsertionPoint(first.function):
        new = func.FuncOp(name, (types, []), visibility="private")
    if sizes:
        new.attributes[KERNEL_SIZES] = ir.ArrayAttr.get(list(map(size_attribute, sizes)))
    entry = new.add_entry_block()
    with ir.InsertionPoint(entry):
        for k, uses in parts.items():
            ctas += k.within(cta).ctas(size_on(k.function, "tile.grid") * len(uses))
            with k.function.location:
                _part(k, cta, [[entry.arguments[i] for i in use] for use in uses], new.operation)
        func.ReturnOp([])
    totals = {key: sum(size_on(k.function, f"tile.{key}") * len(uses) for k, uses in parts.items()) for key in ("bytes", "flops")}
    numbers = {"grid": ctas, "threads": cta, "outputs": outputs, **totals}
    for key, n in {**numbers, **dict.fromkeys(("vec", "chunks", "pack", "teams", "cluster"), 1)}.items():
        new.attributes[f"tile.{key}"] = size_attribute(n)
    _describe_buffers(new.operation, parts, len(types))


def _with_sizes(parts: _Parts, types: list[ir.Type], count: int) -> tuple[_Parts, list[ir.Type]]:
    """Returns parts that use the memory of `count` sizes as their last buffer, and the types of the function's buffers with it."""
    parts = {k: [[*use, len(types)] for use in uses] if k.symbolic else uses for k, uses in parts.items()}
    symbolic = [(k.function.regions[0].blocks[0].arguments, use) for k, uses in parts.items() if k.symbolic for use in uses]
    given = {i: a.type for arguments, use in symbolic for i, a in zip(use, arguments, strict=True)}
    given[len(types)] = ir.MemRefType.get([count], element_of(given[len(types)]))
    return parts, [given.get(i, type_) for i, type_ in enumerate([*types, given[len(types)]])]


def _describe_buffers(new: ir.Operation, parts: _Parts, count: int) -> None:
    """Sets the attributes that say how a joined function's buffers are aligned and which may share memory."""
    align = [0] * count
    alias: set[int] = set()
    for k, use in ((k, use) for k, uses in parts.items() for use in uses):
        for i, n in zip(use, ir.DenseI64ArrayAttr(k.function.attributes["tile.align"]), strict=True):
            align[i] = max(align[i], n)
        if "tile.alias" in k.function.attributes:
            alias.update(use[i] for i in ir.DenseI64ArrayAttr(k.function.attributes["tile.alias"]))
    new.attributes["tile.align"] = ir.DenseI64ArrayAttr.get(align)
    if alias:
        new.attributes["tile.alias"] = ir.DenseI64ArrayAttr.get(sorted(alias))
    if any("tile.consistent" in k.function.attributes for k in parts):
        new.attributes["tile.consistent"] = ir.UnitAttr.get()


def _sizes(parts: _Parts) -> list[SizeLike]:
    """Returns the sizes that the parts compute with, each once, among them the number of programs of each symbolic part."""
    found: dict[SizeLike, None] = {}
    for k, uses in parts.items():
        if k.symbolic:
            found.update(dict.fromkeys(read_sizes(k.function.attributes[KERNEL_SIZES])))
            grid = size_on(k.function, "tile.grid") * len(uses)
            found.update({grid: None} if isinstance(grid, Size) else {})
    return list(found)


def _part(kernel: SmallKernel, cta: int, uses: list[list[ir.Value]], joined: ir.Operation) -> None:
    """Writes one tile.part at the insertion point, in the function `joined`, that runs all launches of a kernel. uses: the buffers
    of each launch."""
    copy = kernel.function.clone()
    if kernel.symbolic:
        _renumber_sizes(copy, read_sizes(joined.attributes[KERNEL_SIZES]))
    attributes = {a: copy.attributes[a] for a in copy.attributes if a.startswith("tile.") and a not in _OF_FUNCTIONS}
    grid = size_on(kernel.function, "tile.grid") * len(uses)
    attributes |= {"tile.grid": size_attribute(grid), "tile.pack": i64(kernel.within(cta).pack)}
    part = ir.Operation.create(PART, regions=1, attributes=attributes)
    copy.regions[0].blocks[0].append_to(part.regions[0])
    copy.erase()
    block = part.regions[0].blocks[0]
    *ops, end = ops_in(block)
    end.erase()
    buffers = uses[0]
    if len(uses) > 1:
        buffers = _chosen(kernel, block, ops, uses, joined)
    for argument, buffer in zip(list(block.arguments), buffers, strict=True):
        argument.replace_all_uses_with(buffer)
    while len(block.arguments):
        block.erase_argument(0)


def _chosen(
    kernel: SmallKernel, block: ir.Block, ops: list[ir.Operation], uses: list[list[ir.Value]], joined: ir.Operation
) -> list[ir.Value]:
    """Emits the choice of the buffers that a program works on, and returns them. Programs of all launches are numbered in sequence:
    the number divided by the grid is the launch, and the remainder replaces tile.program_id in `ops`."""
    programs = size_on(kernel.function, "tile.grid")
    with ir.InsertionPoint.at_block_begin(block):
        program = ir.Operation.create("tile.program_id", results=[ir.IndexType.get()]).results[0]
        if isinstance(programs, Size):
            grid = load_size(joined, programs, uses[0][-1])
        else:
            grid = arith.constant(ir.IndexType.get(), programs)
        launch, program_of_launch = arith.divui(program, grid), arith.remui(program, grid)
        differing = [i for i in range(len(uses[0])) if any(use[i] != uses[0][i] for use in uses)]
        cases = ir.DenseI64ArrayAttr.get(range(len(uses) - 1))
        types = [uses[0][i].type for i in differing]
        choice = ir.Operation.create(
            "scf.index_switch", results=types, operands=[launch], attributes={"cases": cases}, regions=len(uses)
        )
        for region, use in zip(choice.regions, (uses[-1], *uses[:-1]), strict=True):  # the first region is the default
            with ir.InsertionPoint(region.blocks.append()):
                ir.Operation.create("scf.yield", operands=[use[i] for i in differing])
    for op in ops:
        if op.name == "tile.program_id":
            replace_op(op, program_of_launch)
    chosen = dict(zip(differing, choice.results, strict=True))
    return [chosen.get(i, buffer) for i, buffer in enumerate(uses[0])]


def _renumber_sizes(function: ir.Operation, sizes: Sequence[SizeLike]) -> None:
    """Has a function load its sizes from their places in `sizes`, where it does not."""
    for load in [use.owner.operation for use in function.regions[0].blocks[0].arguments[-1].uses]:
        size = kernel_size(load.result)
        assert size is not None, f"it reads its sizes in another way: {load}"
        if (place := sizes.index(size)) != number_of(load.operands[1]):
            with ir.InsertionPoint(load), load.location:
                load.operands[1] = arith.constant(ir.IndexType.get(), place)


_OF_FUNCTIONS = (
    KERNEL_SIZES,
    "tile.align",
    "tile.alias",
    "tile.dependent",
    "tile.consistent",
    "tile.outputs",
    "tile.bytes",
    "tile.flops",
)

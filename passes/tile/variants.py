"""Makes several kernel functions of one, for ranges of a symbolic size: a schedule for thousands of rows leaves most of a GPU idle
where a call has few."""

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import SizeLike

from ..families.choice import CHOICE, SMALLER
from ..ir.locations import where
from ..ir.sizes import size_attribute


def variants(module: ir.Module, function: ir.Operation) -> list[ir.Operation]:
    """Returns copies of a kernel function, one for each choice in its `graph.smaller`, in front of it. Launches each in front of
    each launch of it, with the sizes that it is for in `when`."""
    if SMALLER not in function.attributes:
        return []
    given = function.attributes[SMALLER]
    del function.attributes[SMALLER]
    name, above = ir.StringAttr(function.attributes["sym_name"]).value, -1
    launches = [op for op in _launches(module) if op.attributes["kernel"].value == name]
    found = []
    for choice in given["upto"]:
        fields = {named.name: named.attr for named in choice}
        most = ir.IntegerAttr(fields.pop("most")).value
        if most <= above:
            raise CompileError(f"{SMALLER} is not in order: {most}", where=where(function.location))
        with ir.InsertionPoint(function):
            copy = function.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_to_{most}", module.context)
        copy.attributes[CHOICE] = ir.DictAttr.get(fields, module.context)
        for launch in launches:
            with ir.InsertionPoint(launch):
                made = launch.clone()
            made.attributes["kernel"] = ir.FlatSymbolRefAttr.get(f"{name}_to_{most}", module.context)
            made.attributes["when"] = _range(given["size"], above, most)
        found.append(copy)
        above = most
    for launch in launches:
        launch.attributes["when"] = _range(given["size"], above, -1)
    return found


def smaller(module: ir.Module, kernel: ir.Operation, word: str, size: SizeLike, most: int) -> ir.Operation:
    """Returns a copy of a kernel, its name with `word`, for calls in which a size is at most so large; launches of the kernel
    itself are for the others. The launches must not have ranges yet."""
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    with ir.InsertionPoint(kernel):
        copy = kernel.clone()
    copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_{word}", module.context)
    for launch in [op for op in _launches(module) if op.attributes["kernel"].value == name]:
        with ir.InsertionPoint(launch):
            made = launch.clone()
        made.attributes["kernel"] = ir.FlatSymbolRefAttr.get(f"{name}_{word}", module.context)
        with module.context:
            made.attributes["when"] = _range(size_attribute(size), -1, most)
            launch.attributes["when"] = _range(size_attribute(size), most, -1)
    return copy


def _launches(module: ir.Module) -> list[ir.Operation]:
    programs = [op.operation for op in module.body.operations if op.operation.name == "plan.program"]
    return [o.operation for p in programs for o in p.regions[0].blocks[0].operations if o.operation.name == "plan.launch"]


def _range(size: ir.Attribute, above: int, most: int) -> ir.Attribute:
    with size.context:
        return ir.ArrayAttr.get([size, size_attribute(above), size_attribute(most)])

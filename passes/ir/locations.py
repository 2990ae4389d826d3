"""Reads MLIR locations as people do: `loc("aten.add.Tensor"("m.py":12:0))` is op aten.add.Tensor at m.py:12.

A decomposed op of the model wraps the ops it became: `loc("aten.gelu.default"("aten.erf.default"("m.py":12:0)))`. A place in the
model without a source line, such as a module's path, is a file at line 0: `loc("aten.relu.default"("layers.1: ReLU":0:0))`.
"""

from collections.abc import Iterable

from torch_mlir import ir


def where(location: ir.Location) -> str:
    """Returns the first source line of a location, "m.py:12", or ""."""
    return next(iter(sources(location)), "")


def sources(location: ir.Location) -> list[str]:
    """Returns the source lines of a location in order, without repeats; a module's path where there is no line."""
    files = [leaf for leaf in leaves(location) if isinstance(leaf, ir.FileLineColLoc)]
    return list(dict.fromkeys(f"{leaf.filename}:{leaf.start_line}" if leaf.start_line else leaf.filename for leaf in files))


def op_names(location: ir.Location) -> list[str]:
    """Returns the op names that wrap the source lines of a location ("aten.add.Tensor"), in order, without repeats."""
    found: dict[str, None] = {}
    _names(location, found)
    return list(found)


def model_ops(location: ir.Location) -> list[str]:
    """Returns the model's ops: like `op_names`, but a decomposed op counts by its own name only."""
    parts = location.locations if isinstance(location, ir.FusedLoc) else [location]
    found: dict[str, None] = {}
    for part in parts:
        if isinstance(part, ir.FusedLoc):
            found.update(dict.fromkeys(model_ops(part)))
        elif isinstance(part, ir.CallSiteLoc):
            found.update(dict.fromkeys(model_ops(part.callee)))
        elif isinstance(part, ir.NameLoc):
            found.setdefault(part.name_str)
    return list(found)


def decomposed_op(location: ir.Location) -> str:
    """Returns the decomposed op that every part of a location comes from, or ""."""
    parts = location.locations if isinstance(location, ir.FusedLoc) else [location]
    names = {part.name_str if isinstance(part, ir.NameLoc) and isinstance(part.child_loc, ir.NameLoc) else "" for part in parts}
    return names.pop() if len(names) == 1 else ""


def op_word(name: str) -> str:
    """Returns the short name of an op for kernel names: "layer_norm" for "aten.native_layer_norm.default"."""
    parts = name.split(".")
    return (parts[1] if len(parts) > 2 else parts[-1]).strip("_").removeprefix("native_")


def fused(locations: Iterable[ir.Location]) -> ir.Location:
    """Returns one fused location for all of these, flattened and without repeats."""
    flat: dict[str, ir.Location] = {}
    for location in locations:
        for part in location.locations if isinstance(location, ir.FusedLoc) else [location]:
            if not isinstance(part, ir.UnknownLoc):
                flat.setdefault(str(part), part)
    parts = list(flat.values())
    return parts[0] if len(parts) == 1 else ir.Location.fused(parts) if parts else ir.Location.unknown()


def leaves(location: ir.Location) -> list[ir.Location]:
    """Returns the innermost locations, through names, fusions and the callees of call sites."""
    if isinstance(location, ir.NameLoc):
        return leaves(location.child_loc)
    if isinstance(location, ir.FusedLoc):
        return [leaf for part in location.locations for leaf in leaves(part)]
    if isinstance(location, ir.CallSiteLoc):
        return leaves(location.callee)
    return [location]


def _names(location: ir.Location, found: dict[str, None]) -> None:
    if isinstance(location, ir.NameLoc):
        found.setdefault(location.name_str)
        _names(location.child_loc, found)
    elif isinstance(location, ir.FusedLoc):
        for part in location.locations:
            _names(part, found)
    elif isinstance(location, ir.CallSiteLoc):
        _names(location.callee, found)

"""Reads MLIR locations as source lines and op names: `loc("aten.add.Tensor"("m.py":12:0))` is op aten.add.Tensor at m.py:12.

A decomposed op of the model wraps the ops it became: `loc("aten.gelu.default"("aten.erf.default"("m.py":12:0)))`. A place in the
model without a source line, such as a module's path, is a file at line 0: `loc("aten.relu.default"("layers.1: ReLU":0:0))`.
"""

from collections.abc import Iterable, Iterator

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
    named = [part for part in _parts(location) if isinstance(part, ir.NameLoc)]
    return list(dict.fromkeys(name for part in named for name in (part.name_str, *op_names(part.child_loc))))


def model_ops(location: ir.Location) -> list[str]:
    """Returns the model's ops: like `op_names`, but a decomposed op counts by its own name only."""
    return list(dict.fromkeys(part.name_str for part in _parts(location) if isinstance(part, ir.NameLoc)))


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
    parts = _parts(location)
    return [leaf for part in parts for leaf in (leaves(part.child_loc) if isinstance(part, ir.NameLoc) else [part])]


def _parts(location: ir.Location) -> Iterator[ir.Location]:
    """Yields the parts of a location: those of fusions, and the callees of call sites."""
    if isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _parts(part)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _parts(location.callee)
    else:
        yield location

"""Locations as people read them: `loc("aten.add.Tensor"("m.py":12:0))` is op aten.add.Tensor at m.py:12."""

from collections.abc import Iterable

from torch_mlir import ir


def where(location: ir.Location) -> str:
    """The first source line of a location, "m.py:12", or ""."""
    return next(iter(sources(location)), "")


def sources(location: ir.Location) -> list[str]:
    """Every source line of a location, in order, once."""
    files = [leaf for leaf in leaves(location) if isinstance(leaf, ir.FileLineColLoc)]
    return list(dict.fromkeys(f"{leaf.filename}:{leaf.start_line}" for leaf in files))


def op_names(location: ir.Location) -> list[str]:
    """The names a location wraps its source lines in ("aten.add.Tensor"), in order, once."""
    found: dict[str, None] = {}
    _names(location, found)
    return list(found)


def fused(locations: Iterable[ir.Location]) -> ir.Location:
    """One location for all of these, flat and without repeats."""
    flat: dict[str, ir.Location] = {}
    for location in locations:
        for part in location.locations if isinstance(location, ir.FusedLoc) else [location]:
            if not isinstance(part, ir.UnknownLoc):
                flat.setdefault(str(part), part)
    parts = list(flat.values())
    return parts[0] if len(parts) == 1 else ir.Location.fused(parts) if parts else ir.Location.unknown()


def leaves(location: ir.Location) -> list[ir.Location]:
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

"""The passes in which targets differ. Each target's folder defines its own, with their options."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Steps:
    """Passes of one target, as pipeline text.

    layout  lamina-layout, with the target's preferences
    forms   passes that rewrite library calls as soon as they are ops
    split   options of lamina-split-reductions
    fuse    options of lamina-fuse
    ranges  passes that copy kernels for ranges of sizes, after lamina-plan
    tile    options of lamina-tile
    choose  passes that replace library calls of hot ops, before lamina-plan
    launch  passes that join kernels, after lamina-tile
    """

    layout: str
    forms: tuple[str, ...] = ()
    split: str = ""
    fuse: str = ""
    ranges: tuple[str, ...] = ()
    tile: str = ""
    choose: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()


def options(**values: object) -> str:
    """Writes options of a pass: "{rows=32 parts=1024}", "" for none. False and None are left out."""
    parts = [
        f"{name.replace('_', '-')}={str(value).lower() if value is True else value}" for name, value in values.items() if value
    ]
    return f"{{{' '.join(parts)}}}" if parts else ""

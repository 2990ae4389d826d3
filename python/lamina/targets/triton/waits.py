"""Repairs PTX from Triton that lacks waits for wgmma in loops.

A `wgmma.mma_async` reads the fragments of its left operand from registers while the program goes on, so these may not be written
before `wgmma.wait_group` has waited for it. Where Triton pipelines a loop whose left operands are in registers, as computed ones
are, each iteration waits only for the first product of the previous one: the registers of the others may be overwritten while they
are read (triton-lang/triton#9433; seen with Triton 3.6 on an H200, 1 to 30 of 30 runs wrong).
"""

import re

_LABEL = re.compile(r"^(\$L\w+):", re.MULTILINE)
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+);")
_FROM_REGISTERS = re.compile(r"wgmma\.mma_async\.[\w.]+\s+\{[^}]*\},\s*\{")
_WAIT = re.compile(r"(wgmma\.wait_group\.sync\.aligned) (\d+)")


def waited(ptx: str) -> str:
    """Returns the PTX where the last wait in each such loop waits for all products."""
    if not _FROM_REGISTERS.search(ptx):
        return ptx
    labels = {found[1]: found.start() for found in _LABEL.finditer(ptx)}
    ends: set[int] = set()
    for branch in _BRANCH.finditer(ptx):
        begin = labels.get(branch[1], branch.end())
        if _FROM_REGISTERS.search(ptx, begin, branch.start()):
            ends.update(wait.start() for wait in list(_WAIT.finditer(ptx, begin, branch.start()))[-1:])
    return _WAIT.sub(lambda wait: f"{wait[1]} 0" if wait.start() in ends else wait[0], ptx)

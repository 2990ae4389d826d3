"""The steps of a bitonic sort of a power of two of lanes.

K. Batcher, "Sorting networks and their applications", 1968. Lanes are compared in pairs whose numbers differ in the bits of a
mask: the one whose number is less gets the lesser element. Runs of two sorted halves begin with pairs from both ends, so that all
pairs of all steps are in the same order.
"""

from collections.abc import Iterator


def step_masks(lanes: int) -> Iterator[int]:
    """Yields the masks of the steps, in order."""
    run = 2
    while run <= lanes:
        yield run - 1
        distance = run // 4
        while distance:
            yield distance
            distance //= 2
        run *= 2


def highest(mask: int) -> int:
    """Returns the greatest power of two in a mask: of a pair, the lane whose number has this bit gets the greater element."""
    return 1 << (mask.bit_length() - 1)

"""Runs warp-specialized Gluon kernels (triton.experimental.gluon, for Hopper) on the CPU, where Triton has no interpreter for them.

    simulate(kernel, grid, {"x": x, "y": y, "BLOCK": 64}, seed=1)

The kernel's body runs in Python, each partition of a warp_specialize as a thread. One runs at a time; who goes on at a barrier, a
copy or a product is drawn from the seed, and copies come late and in any order. So a run repeats, and another seed is another
order of events: a few of them find what is not ordered. Values are those of Triton's types; layouts are not looked at.

Raises Fault, which names the partition and its line, for:
- a deadlock, with all that wait and their barriers' states; more arrivals than a phase has; a barrier never initialized
- a read of shared memory that was never written, or that a TMA load is still writing
- a write of shared memory that a product or a TMA store not yet waited for still reads
- a write and another access of shared memory that no barriers put in order, however they came in this run
- a product or TMA store that reads what was stored with no fence_async_shared() after it, a TMA load to a barrier made without one
- the use of a product that warpgroup_mma_wait has not given back as done
- products, stores and loads that nobody has waited for at the end
- accesses out of bounds, and descriptors that the chip refuses
- a variable that a loop does not carry (see carried.py)

As on the chip, a wait by parity passes whenever the current phase has the other parity: rounds that alias show as what follows.
"""

from .launch import simulate
from .scheduler import Fault

__all__ = ["Fault", "simulate"]

"""The table of functions by which lamina-tile-to-cpu lowers each op of tile programs. A program is the work of one CPU thread."""

from ..tile_ops import Elsewhere, Refused, TileOps
from . import memory, scans, scatter, sorts

_ONE_THREAD = Refused("one thread computes a program, so nothing is spread over threads", "reduce the block itself")
_RUNS = Refused("lanes in runs are read and written by a GPU's threads", "emit tile.gather, or a loop over the runs")

TILE_OPS: TileOps = {
    "tile.program_id": Elsewhere("cpu/abi.py: the counter of the loop over programs"),
    "tile.part": Refused("joined launches save a GPU's launches alone", "leave lamina-horizontal out"),
    "tile.check": Elsewhere("cpu/checks.py, once the function has a slot for errors"),
    "tile.gather": memory.lower_gather,
    "tile.scatter": scatter.lower_scatter,
    "tile.read_runs": _RUNS,
    "tile.read_shared": _RUNS,
    "tile.write_runs": _RUNS,
    "tile.scan": scans.lower_scan,
    "tile.recurrence": scans.lower_recurrence,
    "tile.sort": sorts.lower_sort,
    "tile.window": Refused("masks of a CPU's blocks end, and do not begin, amid a block", "emit comparisons of vector.step"),
    "tile.transpose": Refused("a CPU has no memory that the threads of a program share", "emit vector.transpose"),
    "tile.combine": _ONE_THREAD,
    "tile.exp_sum": _ONE_THREAD,
    "tile.exp_total": _ONE_THREAD,
    "tile.lanes": _ONE_THREAD,
    "random.bits": Elsewhere("lamina-expand-math"),
}

"""The table of functions by which lamina-distribute lowers each op of tile programs to the code of one GPU thread."""

from ..tile_ops import Elsewhere, TileOps
from . import blocks, control, random, runs, windows
from .collective import online, scans, sorts, transpose

TILE_OPS: TileOps = {
    "tile.program_id": blocks.program_id,
    "tile.part": Elsewhere("simt/parts.py, which gives each part its CTAs"),
    "tile.check": blocks.check,
    "tile.gather": blocks.gather,
    "tile.scatter": blocks.scatter,
    "tile.read_runs": runs.read,
    "tile.read_shared": runs.read_shared,
    "tile.write_runs": runs.write,
    "tile.scan": scans.scan,
    "tile.recurrence": scans.recurrence,
    "tile.sort": sorts.sort,
    "tile.window": windows.window,
    "tile.transpose": transpose.transpose,
    "tile.combine": control.combine,
    "tile.exp_sum": online.accumulate,
    "tile.exp_total": online.finish,
    "tile.lanes": online.lanes,
    "random.bits": random.bits,
}

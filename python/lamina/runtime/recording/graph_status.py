"""The CUDA graph status of a loaded program: whether its steps run one by one or as a recorded graph."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Times:
    """Seconds of a run, the least of several: `host` to issue it, `device` from its start to its end on the GPU."""

    host: float
    device: float


@dataclass(frozen=True)
class Status:
    """The state of a loaded GPU program: whether its steps are launched one by one or replayed as a CUDA graph.

    state     "watching" (runs are watched and measured), "trying" (a graph is replayed and measured), "recorded", "given up", or
              "off" (not asked for, or impossible)
    why       why it was given up, or is off
    steps     times of a run step by step; replays: of a run as a graph; None if that was not measured
    recorded  how often a graph has been recorded
    copied_in, copied_out  arguments and results of library calls that each replay copies, with their bytes in *_bytes
    aligned   arguments that the last run copied because they do not start at a multiple of 16 bytes
    """

    state: str
    why: str = ""
    steps: Times | None = None
    replays: Times | None = None
    recorded: int = 0
    copied_in: int = 0
    copied_in_bytes: int = 0
    copied_out: int = 0
    copied_out_bytes: int = 0
    aligned: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether the state stays the same while arguments stay in place."""
        return self.state not in ("watching", "trying")


def status_of(report: dict[str, Any], why_not: str) -> Status:
    """Makes a Status from the native runner's report on its graphs."""
    if "state" not in report:
        return Status("off" if why_not else "watching", why_not, aligned=report["aligned"])
    times = {name: Times(*report.pop(name)) if report[name] else report.pop(name) for name in ("steps", "replays")}
    return Status(**{**report, **times})

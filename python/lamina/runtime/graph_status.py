"""What became of a program's steps on a GPU: one by one, or as a recorded CUDA graph."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Times:
    """Seconds of a run: `host` to issue it, `device` from its begin to its end on the GPU. The least of several runs."""

    host: float
    device: float


@dataclass(frozen=True)
class Status:
    """How the steps of a loaded program run on a GPU.

    state     "watching" (runs are watched and measured), "trying" (a graph is replayed and measured), "recorded", "given up", or
              "off" (not asked for, or impossible)
    why       it was given up, or is off
    steps     one by one; replays: as a graph; None where that was not measured
    recorded  how often a graph has been recorded
    copied_in, copied_out  arguments of library calls, and their results, that each replay copies, and their bytes
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
        """Whether it stays so while arguments stay in place."""
        return self.state not in ("watching", "trying")


def status_of(found: dict[str, Any], why_not: str) -> Status:
    """From what the native runner says of its graphs."""
    if "state" not in found:
        return Status("off" if why_not else "watching", why_not, aligned=found["aligned"])
    times = {name: Times(*found.pop(name)) if found[name] else found.pop(name) for name in ("steps", "replays")}
    return Status(**{**found, **times})

"""Questions to tuning, what their answers depend on, and the answers."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_VERSIONS = ("lamina", "torch", "triton")


@dataclass(frozen=True)
class Question:
    """Asks which implementation of one op is fastest in its surroundings.

    key         all that the answer depends on but device and versions: op, shapes, strides, dtypes, what is fused with it
    what        describes the op for people
    candidates  names of the implementations, best first by the cost model
    reference   the candidate whose numbers are trusted; "" for the first that runs

    Raises ValueError without candidates, for candidates of equal names, or for a reference that is not a candidate.
    """

    key: str
    what: str
    candidates: tuple[str, ...]
    reference: str = ""

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError(f"{self.what} has no candidates")
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"{self.what} has candidates of the same name: {', '.join(self.candidates)}")
        if self.reference and self.reference not in self.candidates:
            raise ValueError(f"{self.reference!r} is none of the candidates of {self.what}: {', '.join(self.candidates)}")


@dataclass(frozen=True)
class Identity:
    """The device and versions that an answer depends on; an answer found under another identity is not used.

    device    the processor with the part of it that may be used, e.g. "NVIDIA H100 80GB HBM3, 132 SMs"
    versions  of Lamina and what candidates are made with, e.g. "lamina 0.1.0, torch 2.11.0, triton 3.6.0"
    """

    device: str
    versions: str

    @staticmethod
    def of_gpu(index: int) -> "Identity":
        """Returns the identity of one of torch's CUDA devices."""
        import torch

        found = torch.cuda.get_device_properties(index)
        return Identity(f"{found.name}, {found.multi_processor_count} SMs", versions())


@dataclass(frozen=True)
class Answer:
    """The answer to a question, and the measurements behind it.

    measured  the candidate that measuring chose; "" if none was measured to the end
    times     median seconds by candidate
    dropped   reason, by candidate that failed or was wrong
    pin       the candidate that the user chose; "" for none
    """

    measured: str
    times: tuple[tuple[str, float], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    pin: str = ""

    @property
    def winner(self) -> str:
        """The candidate to use; "" if only dropped ones are known."""
        return self.pin or self.measured

    @property
    def pinned(self) -> bool:
        """Whether the user chose the winner."""
        return bool(self.pin)


@cache
def versions() -> str:
    """Returns the versions of what candidates are made with."""
    return ", ".join(f"{name} {_version(name)}" for name in _VERSIONS)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from a checkout
        return "unknown"

"""The text of printed Triton kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamina.schedules.contraction import GemmConfig

from .math import FUNCTIONS

HEADER = "import triton\nimport triton.language as tl\n"


@dataclass(frozen=True)
class Printed:
    """A Triton kernel.

    name        its function's name
    kernel      the function's text
    calls       names of functions in targets/triton/printing/math.py that it calls
    arguments   element type of each parameter, as MLIR writes it, and alignment of its memory in bytes
    config      warps and stages to compile it with
    imports     lines before it, for a kernel in Gluon
    otherwise   the fallback for a kernel in Gluon: the same kernel in plain Triton
    note        text that is shown next to its name
    """

    name: str
    kernel: str
    calls: tuple[str, ...]
    arguments: tuple[tuple[str, int], ...]
    config: GemmConfig
    imports: str = ""
    otherwise: "Printed | None" = None
    note: str = ""

    @property
    def text(self) -> str:
        """A module that defines the kernel."""
        return module_text([self])

    def instead(self, why: str) -> "Printed":
        """Copies the kernel, labeled as the fallback for a ping-pong kernel that cannot be used."""
        return replace(self, kernel=f"# No ping-pong: {why}\n{self.kernel}", note="no ping-pong")


def module_text(kernels: Sequence[Printed]) -> str:
    """Returns the text of a module with several kernels."""
    called = dict.fromkeys(name for k in kernels for name in k.calls)
    imports = "".join(dict.fromkeys(k.imports for k in kernels))
    texts = (*(FUNCTIONS[name] for name in called), *(k.kernel for k in kernels))
    return HEADER + imports + "".join(f"\n\n{text}\n" for text in texts)

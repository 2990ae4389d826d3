"""Kernels that users bring: what is said of one, and the table of those that hold for the whole process."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .cuda_source import CudaSource

Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class CustomKernel:
    """A kernel in Triton or CUDA C++ that computes an op or a graph pattern; made and checked by lamina.custom_kernel, where the
    rules are explained.

    name        for people: in explain, in profiles, in errors
    op          the overload (torch._ops.OpOverload), or None
    pattern     or a function in torch's ops
    example_inputs  tensors that the pattern is traced for
    kernel      the @triton.jit function, or a CudaSource
    source      what it was made of then, and flags for its compiler
    arguments   what it is launched with
    grid        blocks along x, y and z
    outputs     tensors like those that it writes; None: what the op's own shape rule says
    when        whether it serves these arguments; None: always
    constants   values of constexpr parameters that are the same at each launch
    configs     what tuning chooses from: constants and launch_names by name, the likeliest first
    epilogue    parameters of a Triton kernel that get a function for what follows it, and its operands; () for none
    threads, shared  of a kernel in CUDA C++: a block's threads, and the bytes of shared memory that it asks for, or rules
    """

    name: str
    op: Any
    kernel: Any
    arguments: Rule
    grid: Rule
    outputs: Rule | None = None
    when: Rule | None = None
    pattern: Rule | None = None
    example_inputs: tuple[Any, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    configs: tuple[Mapping[str, Any], ...] = ()
    source: Any = None
    flags: Sequence[str] = ()
    threads: Any = None
    shared: Any = None
    epilogue: tuple[str, ...] = ()

    @property
    def is_cuda(self) -> bool:
        return isinstance(self.kernel, CudaSource)

    @property
    def launch_names(self) -> tuple[str, ...]:
        """Names in configs that are no parameters of the kernel, nor macros."""
        return ("threads", "shared") if self.is_cuda else ("num_warps", "num_stages")

    @property
    def settings(self) -> dict[str, Any]:
        """What rules get besides arguments and results."""
        return {**self.constants, "threads": self.threads} if self.is_cuda else dict(self.constants)

    def variants(self) -> dict[str, "CustomKernel"]:
        """One kernel for each config, by its text; itself alone, by "", without configs."""
        if not self.configs:
            return {"": self}
        return {" ".join(f"{name}={value}" for name, value in c.items()): self._with(c) for c in self.configs}

    def _with(self, config: Mapping[str, Any]) -> "CustomKernel":
        options = {name: config[name] for name in self.launch_names if name in config}
        constants = {**self.constants, **{name: value for name, value in config.items() if name not in self.launch_names}}
        return replace(self, constants=constants, configs=(), **options)

    @property
    def what(self) -> str:
        """It computes this."""
        return str(self.op) if self.op is not None else f"pattern {getattr(self.pattern, '__name__', '')}"

    def remove(self) -> None:
        """Takes it out of the table of the process, where it is there: what is compiled from now on does without it."""
        TABLE.remove(self)

    def __enter__(self) -> "CustomKernel":
        TABLE.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Table:
    """Kernels that every compilation of the process looks at. Threads may add and remove at any time; a compilation sees the table
    as it was when it began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: tuple[CustomKernel, ...] = ()

    def add(self, kernel: CustomKernel) -> None:
        """In front of those that are there: the newest that fits is taken. Once, however often it is added."""
        with self._lock:
            self._kernels = (kernel, *(k for k in self._kernels if k is not kernel))

    def remove(self, kernel: CustomKernel) -> None:
        with self._lock:
            self._kernels = tuple(k for k in self._kernels if k is not kernel)

    def kernels(self) -> tuple[CustomKernel, ...]:
        return self._kernels


TABLE = Table()

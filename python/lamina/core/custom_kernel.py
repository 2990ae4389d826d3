"""User kernels: the declaration of one, and the process-wide table of registered ones."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .cuda_source import CudaSource

Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class CustomKernel:
    """A kernel in Triton or CUDA C++ that computes an op or a graph pattern. `lamina.custom_kernel` makes and checks it, and
    documents the rules.

    name        name in explain, profiles and errors
    op          the overload (torch._ops.OpOverload), or None
    pattern     where `op` is None: the computation as a function in torch ops
    example_inputs  tensors that the pattern is traced with
    kernel      the @triton.jit function, or a CudaSource
    source      what a CudaSource was made of, and flags for its compiler
    arguments   rule for the launch arguments
    grid        rule for the blocks along x, y and z
    outputs     rule for tensors like those that it writes; None: the op's own shape rule
    when        rule for whether the kernel serves these arguments; None: always
    constants   values of constexpr parameters that are the same at each launch
    configs     candidates for tuning: constants and launch_names by name, the likeliest first
    epilogue    parameters of a Triton kernel that receive the epilogue function and its operands; () for none
    threads, shared  of a CUDA C++ kernel: threads of a block and bytes of dynamic shared memory, or rules for them
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
        """Whether the kernel is written in CUDA C++ rather than Triton."""
        return isinstance(self.kernel, CudaSource)

    @property
    def launch_names(self) -> tuple[str, ...]:
        """Names in configs that are launch options, not kernel parameters or macros."""
        return ("threads", "shared") if self.is_cuda else ("num_warps", "num_stages")

    @property
    def settings(self) -> dict[str, Any]:
        """The values that rules may ask for besides arguments and results."""
        return {**self.constants, "threads": self.threads} if self.is_cuda else dict(self.constants)

    def variants(self) -> dict[str, "CustomKernel"]:
        """Returns one kernel for each config, keyed by the config's text; without configs only this kernel, keyed by ""."""
        if not self.configs:
            return {"": self}
        return {" ".join(f"{name}={value}" for name, value in c.items()): self._with_config(c) for c in self.configs}

    def _with_config(self, config: Mapping[str, Any]) -> "CustomKernel":
        options = {name: config[name] for name in self.launch_names if name in config}
        constants = {**self.constants, **{name: value for name, value in config.items() if name not in self.launch_names}}
        return replace(self, constants=constants, configs=(), **options)

    @property
    def what(self) -> str:
        """Names the op or the pattern that the kernel computes."""
        return str(self.op) if self.op is not None else f"pattern {getattr(self.pattern, '__name__', '')}"

    def remove(self) -> None:
        """Removes the kernel from the process-wide table, if it is there. Later compilations do not see it."""
        TABLE.remove(self)

    def __enter__(self) -> "CustomKernel":
        TABLE.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Table:
    """Kernels that every compilation of the process considers. Threads may add and remove at any time; a compilation sees the table
    as it was when the compilation began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: tuple[CustomKernel, ...] = ()

    def add(self, kernel: CustomKernel) -> None:
        """Puts a kernel first: the newest that fits is chosen. Adding it again moves it to the front."""
        with self._lock:
            self._kernels = (kernel, *(k for k in self._kernels if k is not kernel))

    def remove(self, kernel: CustomKernel) -> None:
        """Removes a kernel; does nothing if it is not registered."""
        with self._lock:
            self._kernels = tuple(k for k in self._kernels if k is not kernel)

    def kernels(self) -> tuple[CustomKernel, ...]:
        """Returns the registered kernels, the newest first."""
        return self._kernels


TABLE = Table()

"""Options of a compilation, and their validation."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from .custom_kernel import CustomKernel
from .errors import CompileError, suggestion
from .sizes.facts import NamedSizes, named_sizes

CudaGraphs = bool | Literal["auto"]
Tune = Literal["off", "cached", "quick", "full"]

FAST_MATH = ("exp-log", "mul-zero", "div-self", "add-zero")


def check_fast_math(names: tuple[str, ...]) -> None:
    """Raises CompileError for a name that is not in FAST_MATH."""
    for name in names:
        if name not in FAST_MATH:
            raise CompileError(f"unknown fast-math option {name!r}", remedy=suggestion(name, FAST_MATH))


@dataclass(frozen=True)
class Options:
    """Options of one compilation; part of the cache key. A wrong type or value raises CompileError.

    strict               an external call outside the library list is a CompileError (default: LAMINA_STRICT=1)
    fast_math            named relaxations: exp-log (exp(log x) -> x), mul-zero (x*0 -> 0), div-self (x/x -> 1), add-zero
                         (x + 0.0 -> x where x may be -0.0)
    fold_weights         bytes up to which parameters and buffers count as constants (0: none)
    freeze_weights       the user promises that parameters and buffers do not change in place while the model is compiled, so that
                         graphs without gradients may keep packed copies of them on the CPU
    round_intermediates  round f16 and bf16 values inside kernels where eager stores them
    wide_sizes           on a GPU, kernels over symbolic sizes count in 64 bits. By default they count in 32 bits, and a program
                         that meets tensors of more than 2**30 elements is compiled once more with this option
    cache                use the on-disk cache
    cuda_graphs          on a GPU, run programs as CUDA graphs, recorded after some calls: "auto" where measurement shows that
                         launches bound the program and the graph is faster, True wherever possible, False never
    graph_limit          CUDA graphs that the process may hold while this program records one; the least recently used go first
    tune                 how implementations of hot ops are chosen: "off" by the cost model, "cached" from the tuning store,
                         "quick" by measuring the three likeliest where the store has no entry, "full" by measuring all
    specialize           sets of sizes worth a program of their own, whose numbers are constants: by the names of Dims, or by
                         argument and dimension, `[{"batch": 8}, {"x": {0: 8, 1: 128}}]`. Sizes that a set does not name stay
                         symbols. The program for all sizes serves until theirs is compiled on another thread. Not in the cache key
    kernels              user kernels (lamina.custom_kernel), considered before those of lamina.register_kernel. Not in the cache
                         key: those that a program uses are part of its graph
    """

    strict: bool = field(default_factory=lambda: os.environ.get("LAMINA_STRICT", "") == "1")
    fast_math: tuple[str, ...] = ()
    fold_weights: int = 0
    freeze_weights: bool = False
    round_intermediates: bool = False
    wide_sizes: bool = False
    cache: bool = True
    cuda_graphs: CudaGraphs = "auto"
    graph_limit: int = 64
    tune: Tune = "cached"
    specialize: tuple[NamedSizes, ...] = field(default=(), repr=False)
    kernels: tuple[CustomKernel, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        kinds = {f.name: f.type for f in fields(self) if f.type in (bool, int)}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if type(value) is not kind:
                raise CompileError(f"option {name!r} must be of type {kind.__name__}, {value!r} given")
        if self.cuda_graphs != "auto" and type(self.cuda_graphs) is not bool:
            raise CompileError(f"option 'cuda_graphs' must be \"auto\", True or False, {self.cuda_graphs!r} given")
        if self.graph_limit < 0:
            raise CompileError(f"option 'graph_limit' must not be negative, {self.graph_limit} given")
        if self.tune not in get_args(Tune):
            known = ", ".join(f'"{policy}"' for policy in get_args(Tune))
            raise CompileError(f"option 'tune' must be one of {known}, {self.tune!r} given")
        object.__setattr__(self, "specialize", _sets_of_sizes(self.specialize))
        for kernel in self.kernels:
            if not isinstance(kernel, CustomKernel):
                raise CompileError(f"option 'kernels' takes what lamina.custom_kernel gives, {kernel!r} given")
        check_fast_math(self.fast_math)

    @staticmethod
    def of(given: "Options | Mapping[str, Any] | None") -> "Options":
        """Returns options from a mapping with the same names, as torch.compile's `options=` gives them. Raises CompileError for an
        unknown name."""
        if isinstance(given, Options):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"options must be lamina.Options or a mapping, not {type(given).__name__}")
        known = [f.name for f in fields(Options)]
        for name in given or {}:
            if name not in known:
                raise CompileError(f"unknown option {name!r}", remedy=suggestion(name, known))
        values = dict(given or {})
        if "fast_math" in values:
            names = values["fast_math"]
            values["fast_math"] = (names,) if isinstance(names, str) else tuple(names)
        if "kernels" in values:
            kernels = values["kernels"]
            values["kernels"] = (kernels,) if isinstance(kernels, CustomKernel) else tuple(kernels)
        return Options(**values)


def _sets_of_sizes(value: Any) -> tuple[NamedSizes, ...]:
    sets = (value,) if isinstance(value, Mapping) else value
    try:
        parsed = [named_sizes(dict(sizes)) for sizes in sets]  # those that have been read before are pairs
    except (TypeError, ValueError):
        parsed = [None]
    if any(not sizes for sizes in parsed):
        raise CompileError(
            f"option 'specialize' takes sets of sizes, {value!r} given", remedy='as in [{"batch": 8}, {"x": {0: 8, 1: 128}}]'
        )
    return tuple(sizes for sizes in parsed if sizes)

"""What a user may ask of a compilation."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from .errors import CompileError

FAST_MATH = ("exp-log", "mul-zero", "div-self", "add-zero")


@dataclass(frozen=True)
class Options:
    """Options of one compilation; part of the cache key.

    strict               an external call outside the library list is a CompileError (default: LAMINA_STRICT=1)
    fast_math            named relaxations: exp-log (exp(log x) -> x), mul-zero (x*0 -> 0), div-self (x/x -> 1), add-zero
                         (x + 0.0 -> x where x may be -0.0)
    fold_weights         bytes up to which parameters and buffers count as constants (0: none)
    round_intermediates  round half-type values inside kernels where eager stores them
    cache                use the on-disk cache
    """

    strict: bool = field(default_factory=lambda: os.environ.get("LAMINA_STRICT", "") == "1")
    fast_math: tuple[str, ...] = ()
    fold_weights: int = 0
    round_intermediates: bool = False
    cache: bool = True

    def __post_init__(self) -> None:
        for name in self.fast_math:
            if name not in FAST_MATH:
                raise CompileError(f"unknown fast-math option {name!r}", remedy=f"one of {', '.join(FAST_MATH)}")

    @staticmethod
    def of(given: "Options | Mapping[str, Any] | None") -> "Options":
        """Options from a mapping with the same names, as torch.compile's `options=` gives them."""
        if isinstance(given, Options):
            return given
        known = [f.name for f in fields(Options)]
        for name in given or {}:
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise CompileError(
                    f"unknown option {name!r}", remedy=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
                )
        values = dict(given or {})
        if "fast_math" in values:
            values["fast_math"] = tuple(values["fast_math"])
        return Options(**values)

"""Compiles kernels for ranges of sizes when a call first needs them; until then another kernel serves such calls."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from torch._subclasses.fake_tensor import unset_fake_temporarily

from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.runtime import cubins
from lamina.runtime.cache import Cache

from ..capture.exclusive import BUILDING
from . import stored

if TYPE_CHECKING:
    from .stages import Built


def with_kernels(built: "Built", names: Collection[str]) -> "Built":
    """Compiles kernels of `built.later`, and returns the program with them; keeps it in the cache where the program is there."""
    from torch_mlir import ir

    from lamina.dialects import context
    from lamina.targets import backend

    texts = [text for name, text in built.later if name in names]
    with BUILDING, unset_fake_temporarily():
        module = ir.Module.parse("\n".join(texts), context())
        made = backend(Target.parse(built.target).machine).compile(module)
    code = cubins.join([*cubins.divide(built.code), *cubins.divide(made.code)])
    left = tuple(pair for pair in built.later if pair[0] not in names)
    program = with_needs(built.program, made.needs)
    found = replace(built, program=program, code=code, kernels=(*built.kernels, *made.kernels), later=left)
    if built.key:
        Cache().put(built.key, stored.entry_of(found))
    return found

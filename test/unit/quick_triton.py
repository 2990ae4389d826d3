"""Spares tests most of the time of Triton's interpreter, which goes by in making again what it has made before:

- types of blocks, which are equal for the same elements and shape, with the shapes of their tensors;
- NumPy's types for Triton's;
- a language that computes, which the interpreter puts in place at each call of a function;
- functions that a kernel calls."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter

_MOST = 10_000
_NUMPY_TYPE, _PATCH_LANGUAGE = interpreter._get_np_dtype, interpreter._patch_lang
_BLOCK, _TENSOR = tl.block_type.__init__, tl.tensor.__init__
_blocks: dict[Any, dict[str, Any]] = {}
_numpy_types: dict[str, np.dtype] = {}


@contextmanager
def quick() -> Iterator[None]:
    """Has the interpreter remember, and find the language replaced."""
    done = SimpleNamespace(restore=lambda: None)
    with ExitStack() as stack:
        for owner, name, other in (
            (tl.block_type, "__init__", _init_block),
            (tl.tensor, "__init__", _init_tensor),
            (interpreter, "_get_np_dtype", _numpy_type),
            (interpreter, "_patch_lang", lambda _: done),
        ):
            stack.enter_context(mock.patch.object(owner, name, other))
        all_of_it = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})  # in place of a function that sees it
        stack.callback(_PATCH_LANGUAGE(all_of_it).restore)
        yield


def _init_block(self: tl.block_type, element_ty: Any, shape: Any) -> None:
    key = _key(element_ty, shape)
    if (found := _blocks.get(key)) is None:
        _BLOCK(self, element_ty, shape)
        tensor = object.__new__(tl.tensor)
        _TENSOR(tensor, None, self)
        if len(_blocks) >= _MOST:
            _blocks.clear()
        _blocks[key] = found = vars(self) | {"_of_tensors": (tensor.shape, tensor.numel)}
    vars(self).update(found)


def _key(element: Any, shape: Any) -> Any:
    """Returns what decides a type: of pointers also the space that they point to, which their name does not tell."""
    return element.name, getattr(element, "address_space", 0), *[n.value if type(n) is tl.constexpr else n for n in shape]


def _init_tensor(self: tl.tensor, handle: Any, type: Any) -> None:
    if (known := vars(type).get("_of_tensors")) is None:
        _TENSOR(self, handle, type)
    else:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known


def _numpy_type(kind: Any) -> np.dtype:
    scalar = kind.scalar
    if (found := _numpy_types.get(scalar.name)) is None:
        found = _numpy_types[scalar.name] = _NUMPY_TYPE(scalar)
    return found


@lru_cache(maxsize=1024)
def interpreted(function: Any) -> Any:
    """Returns the interpreter's version of a function that @triton.jit compiled."""
    return triton.jit(function)

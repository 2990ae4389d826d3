"""The two Python front doors, for tests that hold for both."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.dynamo import backend

NO_CACHE = {"cache": False}

# By its name where the package is installed (its entry point makes it known), by the function in a bare checkout.
BACKEND: Any = "lamina" if "lamina" in torch._dynamo.list_backends() else backend

Model = Callable[..., Any]


def by_export(model: Model, args: tuple[Any, ...]) -> Model:
    return lamina.compile(model, args, options=NO_CACHE)


def by_dynamo(model: Model, args: tuple[Any, ...]) -> Model:
    torch._dynamo.reset()
    compiled: Model = torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=False, fullgraph=True)
    return compiled


DOORS = {"lamina.compile": by_export, "torch.compile": by_dynamo}


def clone(values: Any) -> Any:
    """Copies of the tensors in a tree, with their strides, offsets, sharing and need of gradients."""
    return copy.deepcopy(values)


def same(got: Any, want: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Equal trees: tensors close, of the same type, shape and strides; all else equal."""
    a, a_spec = pytree.tree_flatten(got)
    b, b_spec = pytree.tree_flatten(want)
    assert a_spec == b_spec
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if not isinstance(y, Tensor):
            assert x == y and type(x) is type(y), f"output {i}: {x!r}, not {y!r}"
            continue
        assert x.stride() == y.stride() or y.numel() < 2, f"output {i}: strides {x.stride()}, not {y.stride()}"
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True)


def as_eager(door: Callable[..., Model], model: Model, *args: Any, calls: int = 2, rtol: float = 1e-4, atol: float = 1e-5) -> Any:
    """Calls eager and compiled alike: outputs, inputs and the model's buffers must agree after each call. The last pair of
    (arguments, outputs) of the compiled model."""
    twin = clone(model) if isinstance(model, nn.Module) else model
    compiled = door(twin, clone(args))
    for _ in range(calls):
        mine, theirs = clone(args), clone(args)
        want, got = model(*theirs), compiled(*mine)
        same(got, want, rtol, atol)
        same(mine, theirs, rtol, atol)
        if isinstance(model, nn.Module) and isinstance(twin, nn.Module):
            for buffer, expected in zip(twin.buffers(), model.buffers(), strict=True):
                torch.testing.assert_close(buffer, expected, rtol=rtol, atol=atol)
    return mine, got


def memory(t: Tensor) -> int:
    """Equal for tensors over the same storage."""
    return t.untyped_storage().data_ptr()

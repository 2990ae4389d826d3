"""Implements the kernels of gpu_workloads in jax, for XLA, and times them."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import Array
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree

from lamina.tune.clocks import mean_seconds

CALLS = 30  # in a sample


def chain(x: Array) -> Array:
    """Computes a chain of five pointwise operations."""
    return jax.nn.sigmoid(jax.nn.relu((x + 1) * 2) - 0.5)


def sin_and_cos(x: Array) -> tuple[Array, Array]:
    """Computes sine and cosine."""
    return jnp.sin(x), jnp.cos(x)


def mean_squared(x: Array, y: Array) -> Array:
    """Computes the mean squared difference."""
    return jnp.mean((x - y) ** 2)


def over_sum(x: Array) -> Array:
    """Divides an array by its sum."""
    return x / x.sum()


def gelu(x: Array) -> Array:
    """Computes GELU by the tanh approximation."""
    return 0.5 * x * (1 + jnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def softmax(x: Array) -> Array:
    """Computes a softmax along rows, in f32."""
    return jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


def add_layer_norm(x: Array, y: Array, w: Array, b: Array) -> tuple[Array, Array]:
    """Adds two arrays; returns the sum and its LayerNorm, with f32 statistics."""
    total = x + y
    wide = total.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5)
    return total, ((wide - mean) * scale * w + b).astype(x.dtype)


def rms_norm_silu(x: Array, w: Array, gate: Array) -> Array:
    """Computes an RMSNorm with f32 statistics, multiplied by SiLU of a gate."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return x * scale.astype(x.dtype) * w * jax.nn.silu(gate)


def cross_entropy(x: Array, target: Array) -> Array:
    """Computes the mean cross entropy of logits and target classes, in f32."""
    wide = x.astype(jnp.float32)
    chosen = jnp.take_along_axis(wide, target[:, None], axis=-1)[:, 0]
    return (jax.nn.logsumexp(wide, axis=-1) - chosen).mean().astype(x.dtype)


def transpose_add_relu(x: Array, y: Array) -> Array:
    """Adds the transpose of x to y, and applies ReLU."""
    return jax.nn.relu(x.T + y)


def compiled(name: str, inputs: Sequence[Tensor]) -> Callable[[], Any]:
    """Returns a function without arguments that calls the function `name` of this module on these tensors' memory.

    It does not wait for the result. jax has no 64-bit indices by default, so they are copied as 32-bit ones. Raises KeyError for
    another name.
    """
    function = jax.jit(globals()[name])
    arrays = [jax.dlpack.from_dlpack(x.int() if x.dtype is torch.int64 else x) for x in inputs]
    return lambda: function(*arrays)


def as_tensors(results: Any) -> Any:
    """Waits for results and returns them as torch tensors on the same memory."""
    return pytree.tree_map(torch.from_dlpack, jax.block_until_ready(results))


def samples(run: Callable[[], Any], flush: Callable[[], object]) -> list[float]:
    """Returns seconds that the device is busy with each of CALLS calls, with `flush` (one kernel of torch's) before each.

    XLA uses streams of its own, which events on torch's streams do not see, so the times come from a profile of the device. They
    include no launch overhead and no gaps between kernels. What is compared with them is measured in the same way. If the profiler
    sees nothing, the times are wall-clock, over all calls in a row.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(CALLS):
            flush()
            torch.cuda.synchronize()
            jax.block_until_ready(run())
    found = [
        (e.time_range.start * 1e-6, e.name, e.time_range.end * 1e-6) for e in trace.events() if e.device_type == DeviceType.CUDA
    ]
    return by_call(found, CALLS) if found else [wall(run)]


def by_call(found: Sequence[tuple[float, str, float]], calls: int) -> list[float]:
    """Returns seconds in which something ran in each call, from (start, name, end) of what the device ran.

    The first event is the flush, which separates the calls. An event of its name that takes less than half as long is XLA's.
    Raises ValueError unless there are `calls` calls and each has kernels.
    """
    ordered = sorted(found)
    start, flush, end = ordered[0]
    length = end - start
    each: list[float] = []
    for start, name, end in ordered:
        if name == flush and end - start > length / 2:
            each.append(0.0)
            until = end
        else:
            each[-1] += max(end - max(start, until), 0.0)
            until = max(until, end)
    if len(each) != calls or not all(each):
        raise ValueError(f"the profile has {len(each)} calls, {sum(map(bool, each))} with kernels, where {calls} were made")
    return each


def wall(run: Callable[[], Any]) -> float:
    """Returns wall-clock seconds of a call, over CALLS calls in a row: the median of three runs."""

    def all_calls() -> None:
        """Runs a sample of calls and waits for all."""
        results = [run() for _ in range(CALLS)]
        jax.block_until_ready(results)

    return statistics.median(mean_seconds(all_calls) for _ in range(3)) / CALLS

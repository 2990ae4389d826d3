"""Describes the launches of the attention kernels (lamina.kernels.attention): their parameters, constants and grid."""

from dataclasses import replace
from typing import Any

from lamina.core.gpu import Gpu
from lamina.core.program import ITEM_BYTES, Call, Ref
from lamina.core.program_needs import require_number
from lamina.core.sizes import SizeLike, divisor, is_symbolic, minimum, typical
from lamina.kernels.gluon import has_gluon

from ..launches import Source, launch, strides, tensor_core_size, tensors
from .forward import FORWARD, SPECIALIZED
from .launch_operands import Operands
from .schedules import Backward, Forward, Specialized, Split

_BLOCK = 256  # the most rows or columns of a block, whose places the kernels count in 32 bits
_ALIGNED = 16  # alignment in bytes of a descriptor's base and strides


def _forward(call: Call) -> dict[str, Any]:
    config, operands = Forward.read(_schedule(call)), Operands.of(call)
    own = {
        "M": config.m, "N": config.n,
        "DESCRIPTORS": int(bool(config.descriptors) and all(map(_suits_descriptors, (operands.key, operands.value)))),
    }  # fmt: skip
    batch, heads, queries, _ = operands.scores
    return _describe_forward(call, operands, own, batch * heads * -(-queries // config.m), config.warps, config.stages)


def _specialized(call: Call) -> dict[str, Any]:
    config, operands = Specialized.read(_schedule(call)), Operands.of(call)
    batch, heads, queries, _ = operands.scores
    programs = min(operands.kwargs["multiprocessors"], batch * heads * -(-queries // (config.groups * config.queries)))
    described = {name: _described(ref) for name, ref in (("Q", operands.query), ("K", operands.key), ("V", operands.value))}
    own = {"N": config.n, "GROUPS": config.groups, "STAGES": config.stages, "PROGRAMS": programs, **described}
    return _describe_forward(call, operands, own, programs, 4, config.stages)


def _specialized_on(call: Call, gpu: Gpu) -> Call:
    """Returns the call with the number of multiprocessors; a call of `forward` where Gluon's kernel or the descriptors that it
    needs cannot be had."""
    operands = Operands.of(call)
    if has_gluon(gpu) and None not in map(_described, (operands.query, operands.key, operands.value)):
        return replace(call, kwargs=(*call.kwargs, ("multiprocessors", gpu.sm_count)))
    schedule = str(Specialized.read(_schedule(call)).instead(max(operands.elements)))
    return replace(call, callee=FORWARD, kwargs=tuple((dict(call.kwargs) | {"schedule": schedule}).items()))


def _describe_forward(
    call: Call, operands: Operands, extra: dict[str, Any], programs: SizeLike, warps: int, stages: int
) -> dict[str, Any]:
    """Describes a launch for many queries. extra: constants that only this kernel takes."""
    (batch, heads, queries, keys), kwargs = operands.scores, operands.kwargs
    window, has_sums = kwargs["window"], kwargs["sums"]
    constants = {
        **operands.constants, "OUT": strides(call.outs[0]), "SUMS": strides(call.outs[1]) if has_sums else (),
        "OFFSET": kwargs["offset"], "WINDOW": window, "TOGETHER": operands.together(), **extra,
    }  # fmt: skip
    visible_keys = minimum(keys, window or keys)
    flops = 2 * batch * heads * queries * visible_keys * sum(operands.elements) // (2 if kwargs["causal"] and not window else 1)
    names = {**operands.names(), "out": "y0", "sums": "y1" if has_sums else "x0"}
    return launch(call, names, constants, programs, warps, stages, flops, _reached(constants))


def _split(call: Call) -> dict[str, Any]:
    config, operands = Split.read(_schedule(call)), Operands.of(call)
    batch, heads, queries, keys = operands.scores
    rows = require_number(heads // operands.kv_heads * queries, "attention of few queries")
    constants = {**operands.constants, "PARTS": config.parts, "M": tensor_core_size(rows), "N": config.n}
    flops = 2 * batch * heads * queries * keys * sum(operands.elements)
    names = {**operands.names(), "parts": "y0", "logs": "y1"}
    return launch(
        call, names, constants, batch * operands.kv_heads * config.parts, config.warps, config.stages, flops, _reached(constants)
    )


def _join(call: Call) -> dict[str, Any]:
    (parts, _), out = tensors(call), call.outs[0]
    batch, heads, queries, count, values = parts.shape
    constants = {
        "OUT": strides(out), "HEADS": heads, "QUERIES": queries, "VALUES": values, "PARTS": count,
        "P": 1 << (require_number(count, "attention") - 1).bit_length(), "E": tensor_core_size(require_number(values, "attention")),
    }  # fmt: skip
    flops = 2 * batch * heads * queries * count * values
    return launch(call, {"parts": "x0", "logs": "x1", "out": "y0"}, constants, batch * heads * queries, flops=flops)


def _backward_queries(call: Call) -> dict[str, Any]:
    config, operands = Backward.read(_schedule(call)), Operands.of(call)
    out, sums, grad = operands.others
    constants = {
        "OUT": strides(out), "SUMS": strides(sums), "GRAD": strides(grad), "D_Q": strides(call.outs[0]), "M": config.m,
        "N": config.n, "TOGETHER": operands.together(),
    }  # fmt: skip
    batch, heads, queries, _ = operands.scores
    names = {**operands.names("out", "sums", "grad"), "d_q": "y0", "deltas": "y1"}
    return _gradients(
        call, operands, names, constants, batch * heads * -(-queries // config.m), 2 * operands.elements[0] + operands.elements[1]
    )


def _backward_keys(call: Call) -> dict[str, Any]:
    config, operands = Backward.read(_schedule(call)), Operands.of(call)
    sums, grad, _ = operands.others
    constants = {
        "SUMS": strides(sums), "GRAD": strides(grad), "D_K": strides(call.outs[0]), "D_V": strides(call.outs[1]),
        "M": config.queries, "N": config.keys, "TOGETHER": operands.together(by_keys=True),
    }  # fmt: skip
    batch, _, _, keys = operands.scores
    names = {**operands.names("sums", "grad", "deltas"), "d_k": "y0", "d_v": "y1"}
    return _gradients(
        call, operands, names, constants, batch * operands.kv_heads * -(-keys // config.keys), 2 * sum(operands.elements)
    )


def _gradients(
    call: Call, operands: Operands, names: dict[str, str], constants: dict[str, Any], programs: SizeLike, products: int
) -> dict[str, Any]:
    """Describes a launch of the backward pass. products: multiplications for each score."""
    config, (batch, heads, queries, keys) = Backward.read(_schedule(call)), operands.scores
    flops = 2 * batch * heads * queries * keys * products // (2 if operands.kwargs["causal"] else 1)
    constants = operands.constants | constants
    return launch(call, names, constants, programs, config.warps, config.stages, flops, _reached(constants))


def _reached(constants: dict[str, Any]) -> list[SizeLike]:
    """Returns how far a block reaches along rows and columns, and how far a mask's keys do."""
    blocks = [_BLOCK * stride for name in ("Q", "K", "V", "OUT", "GRAD") for stride in constants.get(name, ())[2:]]
    return [*blocks, constants["KEYS"] * constants["MASK"][3]]


def _bounds(call: Call) -> dict[str, Any]:
    (visible,), kwargs = tensors(call), dict(call.kwargs)
    batch, heads, _, keys = visible.shape
    at_batch, at_head, _, at_key = strides(visible)
    constants = {
        "MASK": (at_batch, at_head, at_key), "OUT": strides(call.outs[0]), "HEADS": heads, "KEYS": keys, "LOW": kwargs["low"],
        "HIGH": kwargs["high"], "N": min(1024, tensor_core_size(typical(keys))),
    }  # fmt: skip
    return launch(call, {"mask": "x0", "out": "y0"}, constants, batch * heads)


def _blocks(call: Call) -> dict[str, Any]:
    (mask,), out, kwargs = tensors(call), call.outs[0], dict(call.kwargs)
    batch, heads, count, _ = out.shape
    constants = {
        "MASK": strides(mask), "OUT": strides(out)[:3], "HEADS": heads, "QUERIES": kwargs["queries"], "KEYS": kwargs["keys"],
        "HOW": "bool" if mask.dtype == "bool" else "bias", "CAUSAL": bool(kwargs["causal"]), "OFFSET": kwargs["offset"],
        "WINDOW": kwargs["window"], "BY_KEYS": bool(kwargs["by_keys"]), "M": kwargs["m"], "N": kwargs["n"],
    }  # fmt: skip
    if kwargs["by_keys"]:
        other = {"QUERIES": "KEYS", "KEYS": "QUERIES", "M": "N", "N": "M"}
        at_batch, at_head, at_query, at_key = strides(mask)
        constants |= {name: constants[source] for name, source in other.items()} | {"MASK": (at_batch, at_head, at_key, at_query)}
    return launch(call, {"mask": "x0", "out": "y0"}, constants, batch * heads * count)


def _schedule(call: Call) -> str:
    return str(dict(call.kwargs)["schedule"])


def _suits_descriptors(ref: Ref) -> bool:
    """Returns whether rows are contiguous, begin at multiples of 16 bytes and do not overlap."""
    *outer, last = strides(ref)
    aligned = all(n and divisor(n) * ITEM_BYTES[ref.dtype] % _ALIGNED == 0 for n in outer)
    return last == 1 and divisor(ref.offset) % _ALIGNED == 0 and aligned


def _described(ref: Ref) -> tuple[int, ...] | None:
    """Returns the strides for a descriptor of the whole tensor, with an arbitrary valid one for dimensions of length 1; None if
    no descriptor fits, or a size is symbolic."""
    if is_symbolic((ref.offset, *ref.shape, *ref.strides)):
        return None
    found = tuple(_ALIGNED if n == 1 else s for n, s in zip(ref.shape, ref.strides, strict=True))
    *outer, last = found
    rows = all(n > 0 and n * ITEM_BYTES[ref.dtype] % _ALIGNED == 0 for n in outer)
    return found if rows and (last == 1 or ref.shape[-1] == 1) and ref.offset % _ALIGNED == 0 else None


SOURCES = {
    f"lamina.attention_{kernel}": Source(f"lamina.kernels.attention.{kernel}:{kernel}", describe)
    for kernel, describe in (
        ("forward", _forward), ("split", _split), ("join", _join), ("bounds", _bounds), ("blocks", _blocks),
        ("backward_queries", _backward_queries), ("backward_keys", _backward_keys),
    )
}  # fmt: skip
SOURCES[SPECIALIZED] = Source("lamina.kernels.attention.specialized:specialized", _specialized, _specialized_on)
"""Lamina's kernels by the callee of their calls."""

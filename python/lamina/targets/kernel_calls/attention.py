"""Builds the launches of the attention kernels (lamina.kernels.attention): their parameters, constants and grid, from a call's
refs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lamina.core.gpu import Gpu
from lamina.core.program import ITEM_BYTES, Call, Program, Ref
from lamina.core.program_needs import fixed
from lamina.passes.families.attention.backward import BACKWARD_KEYS, BACKWARD_QUERIES
from lamina.passes.families.attention.forward import FORWARD, JOIN, SPECIALIZED, SPLIT
from lamina.passes.families.attention.mask_operands import BLOCKS, BOUNDS
from lamina.passes.families.grouped_products import GROUPED
from lamina.schedules.attention import Forward, Specialized, Split, read

from ..triton.stages import has_gluon
from . import attention_backward, grouped_products
from .operands import SIDE_BY_SIDE, drops, extras, listed, places, power, said, shared, sizes, strides, tensors

_ALIGNED = 16  # alignment in bytes of a descriptor's base and strides
_UNSPECIALIZED = ("mask", "slopes", "blocks", "seed", "MASK", "HOW", "ALIBI", "DROPS")  # parameters that only `forward` has


def placed(program: Program, gpu: Gpu) -> tuple[Program, Mapping[str, Any]]:
    """Turns calls of attention and grouped products into calls of source kernels (see kernel_calls/user.py). Returns the program
    and the kernel functions by key."""
    made = {FORWARD: _forward, SPLIT: _split, JOIN: _join, BOUNDS: _bounds, BLOCKS: _blocks, **attention_backward.LAUNCHES}
    made |= {GROUPED: grouped_products.grouped, SPECIALIZED: lambda call: _specialized(call, gpu)}
    if not any(isinstance(step, Call) and step.callee in made for step in program.steps):
        return program, {}
    from lamina.kernels.attention.backward_keys import backward_keys
    from lamina.kernels.attention.backward_queries import backward_queries
    from lamina.kernels.attention.blocks import blocks
    from lamina.kernels.attention.bounds import bounds
    from lamina.kernels.attention.forward import forward
    from lamina.kernels.attention.join import join
    from lamina.kernels.attention.specialized import specialized
    from lamina.kernels.attention.split import split
    from lamina.kernels.products.grouped import grouped

    functions = {
        FORWARD: forward, SPLIT: split, JOIN: join, BOUNDS: bounds, BLOCKS: blocks, BACKWARD_QUERIES: backward_queries,
        BACKWARD_KEYS: backward_keys, GROUPED: grouped, SPECIALIZED: specialized,
    }  # fmt: skip

    def step(call: Any) -> Any:
        if not isinstance(call, Call) or call.callee not in made:
            return call
        said = made[call.callee](call)
        kernel = said.pop("kernel", call.callee)
        said["gluon"] = functions[kernel].is_gluon()
        said = {"name": kernel.partition(".")[2], "key": functions[kernel].cache_key, **said}
        return replace(call, kwargs=tuple(said.items()))

    return replace(program, steps=tuple(map(step, program.steps))), {f.cache_key: f for f in functions.values()}


def _specialized(call: Call, gpu: Gpu) -> dict[str, Any]:
    (query, key, value, *_), given = tensors(call), dict(call.kwargs)
    config = read(str(given["schedule"]))
    assert isinstance(config, Specialized)
    described = {name: _described(ref) for name, ref in (("Q", query), ("K", key), ("V", value))}
    if None in described.values() or not has_gluon(gpu):
        schedule = str(config.instead(max(sizes(query)[3], sizes(value)[3])))
        return {"kernel": FORWARD, **_forward(replace(call, kwargs=tuple((given | {"schedule": schedule}).items())))}
    batch, heads, queries, _ = sizes(query)
    programs = min(gpu.sm_count, batch * heads * -(-queries // (config.groups * config.queries)))
    own = {"N": config.n, "GROUPS": config.groups, "STAGES": config.stages, "PROGRAMS": programs, **described}
    return _many(call, own, _UNSPECIALIZED, programs, 4, config.stages)


def _forward(call: Call) -> dict[str, Any]:
    (query, key, value, *more), given = tensors(call), dict(call.kwargs)
    config = read(str(given["schedule"]))
    assert isinstance(config, Forward)
    batch, heads, queries, _ = sizes(query)
    own = {
        "M": config.m, "N": config.n, "BLOCKS": listed(extras(more, given)),
        "DESCRIPTORS": int(bool(config.descriptors) and all(map(_suits_descriptors, (key, value)))),
    }  # fmt: skip
    return _many(call, own, (), batch * heads * -(-queries // config.m), config.warps, config.stages)


def _many(call: Call, own: Mapping[str, Any], without: Sequence[str], programs: int, warps: int, stages: int) -> dict[str, Any]:
    """Describes a launch for many queries.

    own      constants of this kernel alone
    without  parameters and constants of `forward` that it does not have
    """
    (query, key, value, *more), out, given = tensors(call), call.outs[0], dict(call.kwargs)
    batch, heads, queries, size = sizes(query)
    _, kv_heads, keys, values = sizes(value)
    head = keys * (size + values) * ITEM_BYTES[key.dtype] * kv_heads // heads
    constants = {
        **shared(query, key, value, extras(more, given), given), "OUT": strides(out),
        "SUMS": strides(call.outs[1]) if given["sums"] else (),
        "BATCH": batch, "CAUSAL": bool(given["causal"]), "OFFSET": given["offset"], "WINDOW": given["window"],
        "TOGETHER": max(1, min(batch * heads, SIDE_BY_SIDE // max(head, 1))), "D": power(size), "E": power(values),
        "DROPS": drops(given), **own,
    }  # fmt: skip
    window = given["window"]
    assert isinstance(window, int)
    seen = min(keys, window or keys)
    flops = 2 * batch * heads * queries * seen * (size + values) // (2 if given["causal"] and not window else 1)
    names = {"q": "x0", "k": "x1", "v": "x2", **places(given), "out": "y0", "sums": "y1" if given["sums"] else "x0"}
    names, constants = ({k: v for k, v in these.items() if k not in without} for these in (names, constants))
    return said(given, names, constants, programs, warps, stages, flops)


def _split(call: Call) -> dict[str, Any]:
    (query, key, value, *more), given = tensors(call), dict(call.kwargs)
    config = read(str(given["schedule"]))
    assert isinstance(config, Split)
    batch, heads, queries, size = sizes(query)
    _, kv_heads, keys, values = sizes(value)
    rows = heads // kv_heads * queries
    constants = {
        **shared(query, key, value, extras(more, given), given), "PARTS": config.parts, "M": power(rows),
        "N": config.n, "D": power(size), "E": power(values),
    }  # fmt: skip
    flops = 2 * batch * heads * queries * keys * (size + values)
    names = {"q": "x0", "k": "x1", "v": "x2", **places(given), "parts": "y0", "logs": "y1"}
    del names["blocks"], names["seed"]  # `split` has neither block lists nor dropout
    return said(given, names, constants, batch * kv_heads * config.parts, config.warps, config.stages, flops)


def _join(call: Call) -> dict[str, Any]:
    (parts, _), out, given = tensors(call), call.outs[0], dict(call.kwargs)
    batch, heads, queries, count, values = sizes(parts)
    constants = {
        "OUT": strides(out), "HEADS": heads, "QUERIES": queries, "VALUES": values, "PARTS": count,
        "P": 1 << (count - 1).bit_length(), "E": power(values),
    }  # fmt: skip
    names = {"parts": "x0", "logs": "x1", "out": "y0"}
    flops = 2 * batch * heads * queries * count * values
    return said(given, names, constants, batch * heads * queries, 4, 1, flops)


def _bounds(call: Call) -> dict[str, Any]:
    (there,), out, given = tensors(call), call.outs[0], dict(call.kwargs)
    batch, heads, _, keys = sizes(there)
    (at_batch, at_head, _, at_key), one = strides(there), min(1024, power(keys))
    constants = {
        "AT": (at_batch, at_head, at_key), "OUT": strides(out), "HEADS": heads, "KEYS": keys, "LOW": given["low"],
        "HIGH": given["high"], "N": one,
    }  # fmt: skip
    return said(given, {"there": "x0", "out": "y0"}, constants, batch * heads, 4, 1, 0)


def _blocks(call: Call) -> dict[str, Any]:
    (mask,), out, given = tensors(call), call.outs[0], dict(call.kwargs)
    batch, heads, count, _ = sizes(out)
    constants = {
        "MASK": strides(mask), "OUT": strides(out)[:3], "HEADS": heads, "QUERIES": given["queries"], "KEYS": given["keys"],
        "HOW": "bool" if mask.dtype == "bool" else "bias", "CAUSAL": bool(given["causal"]), "OFFSET": given["offset"],
        "WINDOW": given["window"], "TURNED": False, "M": given["m"], "N": given["n"],
    }  # fmt: skip
    if given["turned"]:
        other = {"QUERIES": "KEYS", "KEYS": "QUERIES", "M": "N", "N": "M"}
        at_batch, at_head, at_query, at_key = strides(mask)
        constants |= {name: constants[of] for name, of in other.items()}
        constants |= {"MASK": (at_batch, at_head, at_key, at_query), "TURNED": True}
    return said(given, {"mask": "x0", "out": "y0"}, constants, batch * heads * count, 4, 1, 0)


def _suits_descriptors(ref: Ref) -> bool:
    """Tells whether rows are contiguous, begin at multiples of 16 bytes and do not overlap."""
    *outer, last = strides(ref)
    offset = fixed(ref.offset, "attention")
    return last == 1 and offset % _ALIGNED == 0 and all(n and n * ITEM_BYTES[ref.dtype] % _ALIGNED == 0 for n in outer)


def _described(ref: Ref) -> tuple[int, ...] | None:
    """Returns the strides for a descriptor of the whole tensor, with an arbitrary valid one for dimensions of length 1; None where
    no descriptor fits."""
    found = tuple(_ALIGNED if n == 1 else fixed(s, "attention") for n, s in zip(sizes(ref), ref.strides, strict=True))
    *outer, last = found
    rows = all(n > 0 and n * ITEM_BYTES[ref.dtype] % _ALIGNED == 0 for n in outer)
    return found if rows and (last == 1 or sizes(ref)[-1] == 1) and fixed(ref.offset, "attention") % _ALIGNED == 0 else None

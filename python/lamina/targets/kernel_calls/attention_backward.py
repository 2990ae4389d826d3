"""Builds the launches of the attention gradient kernels, as targets/kernel_calls/attention.py does for attention itself."""

from collections.abc import Callable, Mapping
from typing import Any

from lamina.core.program import ITEM_BYTES, Call, Ref
from lamina.passes.families.attention.backward import BACKWARD_KEYS, BACKWARD_QUERIES
from lamina.schedules.attention import Backward, read

from .operands import SIDE_BY_SIDE, drops, extras, listed, places, power, said, shared, sizes, strides, tensors


def _queries(call: Call) -> dict[str, Any]:
    (query, key, value, *more), given = tensors(call), dict(call.kwargs)
    *read_too, out, sums, grad = more
    config = _schedule(given)
    batch, heads, queries, size = sizes(query)
    _, kv_heads, keys, values = sizes(value)
    head = keys * (size + values) * ITEM_BYTES[key.dtype] * kv_heads // heads
    constants = {
        **_constants(query, key, value, extras(read_too, given), given), "OUT": strides(out), "SUMS": strides(sums),
        "GRAD": strides(grad), "D_Q": strides(call.outs[0]), "TOGETHER": max(1, min(batch * heads, SIDE_BY_SIDE // max(head, 1))),
        "M": config.m, "N": config.n,
    }  # fmt: skip
    stand = {**_arguments(given, "out", "sums", "grad"), "d_q": "y0", "deltas": "y1"}
    flops = _flops(given, batch * heads * queries * keys * (2 * size + values))
    return said(given, stand, constants, batch * heads * -(-queries // config.m), config.warps, config.stages, flops)


def _keys(call: Call) -> dict[str, Any]:
    (query, key, value, *more), given = tensors(call), dict(call.kwargs)
    *read_too, sums, grad, _ = more
    config = _schedule(given)
    batch, heads, queries, size = sizes(query)
    _, kv_heads, keys, values = sizes(value)
    head = queries * (size + values) * ITEM_BYTES[query.dtype] * heads // kv_heads
    constants = {
        **_constants(query, key, value, extras(read_too, given), given), "SUMS": strides(sums), "GRAD": strides(grad),
        "D_K": strides(call.outs[0]), "D_V": strides(call.outs[1]),
        "TOGETHER": max(1, min(batch * kv_heads, SIDE_BY_SIDE // max(head, 1))), "M": config.queries, "N": config.keys,
    }  # fmt: skip
    stand = {**_arguments(given, "sums", "grad", "deltas"), "d_k": "y0", "d_v": "y1"}
    flops = _flops(given, batch * heads * queries * keys * 2 * (size + values))
    return said(given, stand, constants, batch * kv_heads * -(-keys // config.keys), config.warps, config.stages, flops)


LAUNCHES: Mapping[str, Callable[[Call], dict[str, Any]]] = {BACKWARD_QUERIES: _queries, BACKWARD_KEYS: _keys}
"""Maps a callee to the function that describes its launch."""


def _schedule(given: Mapping[str, Any]) -> Backward:
    config = read(str(given["schedule"]))
    assert isinstance(config, Backward)
    return config


def _constants(query: Ref, key: Ref, value: Ref, read_too: Mapping[str, Ref], given: Mapping[str, Any]) -> dict[str, Any]:
    known = shared(query, key, value, read_too, given)
    return {
        **{name: x for name, x in known.items() if name not in ("BOUNDS", "ALIBI")},
        "BATCH": sizes(query)[0], "D": power(sizes(query)[3]), "E": power(sizes(value)[3]), "CAUSAL": bool(given["causal"]),
        "BLOCKS": listed(read_too), "DROPS": drops(given),
    }  # fmt: skip


def _arguments(given: Mapping[str, Any], *after: str) -> dict[str, str]:
    """Maps parameters to launch arguments. The tensors named in `after` follow those that attention itself reads."""
    first = 3 + len(str(given["reads"]).split())
    own = {name: x for name, x in places(given).items() if name in ("mask", "blocks", "seed")}
    return {"q": "x0", "k": "x1", "v": "x2", **own, **{n: f"x{first + i}" for i, n in enumerate(after)}}


def _flops(given: Mapping[str, Any], products: int) -> int:
    return 2 * products // (2 if given["causal"] else 1)

"""Describes library calls that the native runner makes through torch's C shim, without Python.

A routine's description maps the arguments of the overload's schema. A call that does not fit stays a Python call: slower by some
microseconds, otherwise the same.
"""

from collections.abc import Callable
from typing import Any

from lamina import _native
from lamina.core.program import Arg, Call, Ref

from .resolve import arguments_of

_DEFAULTS: dict[str, Any] = {
    "beta": 1.0, "alpha": 1.0, "dropout": 0.0, "flag": False, "scale": None, "log_sum_exp": False,
    "stride": (), "padding": (), "dilation": (), "output_padding": (), "groups": 1,
}  # fmt: skip

_Describe = Callable[[Call], dict[str, Any] | None]


def library_call(step: Call, tensors: str) -> dict[str, Any] | None:
    """Describes the step as a C shim call for `tensors` ("cpu" or "cuda"); None if it does not fit. The description's `tensors`
    are refs in the shim's order, None for an absent one."""
    namespace, _, rest = step.callee.partition(".")
    if namespace != "aten" or step.reason != "library":
        return None
    describe = _ROUTINES.get(rest)
    found = describe(step) if describe else None
    if found is None or not _native.has_routine(found["routine"], tensors):
        return None
    if not all(t is None or isinstance(t, Ref) for t in found["tensors"]):
        return None
    return {**_DEFAULTS, **found}


def _product(routine: str, count: int, *factors: str) -> _Describe:
    """Describes a product with `count` operands, and with keyword arguments that scale them."""

    def describe(step: Call) -> dict[str, Any] | None:
        """Describes a call for the native runner; None if it cannot make it."""
        given = dict(step.kwargs)
        if len(step.args) != count or len(step.outs) != 1 or not given.keys() <= set(factors):
            return None
        return {"routine": routine, "tensors": step.args, **{name: _number(v) for name, v in given.items()}}

    return describe


def _number(value: Arg) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    raise TypeError(f"a factor of type {type(value).__name__}")


def _convolution(step: Call) -> dict[str, Any] | None:
    if len(step.args) != 9 or step.kwargs or len(step.owned) != 1:
        return None
    source, weight, bias, stride, padding, dilation, transposed, output_padding, groups = step.args
    return {
        "routine": "convolution",
        "tensors": (source, weight, bias),
        "stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding,
        "flag": bool(transposed), "groups": groups,
    }  # fmt: skip


def _seeds(step: Call) -> dict[str, Any] | None:
    """Describes a draw of i64 seeds from the whole range, as many as the result has."""
    drawn = len(step.owned) == 1 and step.owned[0] is not None and step.owned[0].dtype == "i64"
    return {"routine": "seeds", "tensors": ()} if drawn and step.args[:2] == (-(2**63), 2**63 - 1) else None


def _attention(routine: str, results: int, *, drops: bool = False) -> _Describe:
    """Describes attention; with dropout only where the routine `drops`."""

    def describe(step: Call) -> dict[str, Any] | None:
        """Describes a call for the native runner; None if it cannot make it."""
        args = arguments_of(step)
        if len(step.owned) != results:
            return None
        dropout, scale = _number(args.get("dropout_p", 0.0)), args.get("scale")
        if (dropout and not drops) or args.get("return_debug_mask", False):
            return None
        return {
            "routine": routine,
            "tensors": (args["query"], args["key"], args["value"], args.get("attn_bias", args.get("attn_mask"))),
            "dropout": dropout,
            "flag": bool(args.get("is_causal", False)),
            "scale": None if scale is None else _number(scale),
            "log_sum_exp": bool(args.get("compute_log_sumexp", False)),
        }

    return describe


_ROUTINES: dict[str, _Describe] = {
    "mm.default": _product("mm", 2),
    "bmm.default": _product("bmm", 2),
    "addmm.default": _product("addmm", 3, "beta", "alpha"),
    "baddbmm.default": _product("baddbmm", 3, "beta", "alpha"),
    "convolution.default": _convolution,
    "randint.low": _seeds,
    "_scaled_dot_product_flash_attention_for_cpu.default": _attention("attention", 2, drops=True),
    "_scaled_dot_product_flash_attention.default": _attention("flash", 9),
    "_scaled_dot_product_efficient_attention.default": _attention("efficient", 4),
    "_scaled_dot_product_cudnn_attention.default": _attention("cudnn", 9),
}

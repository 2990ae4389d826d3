"""Builds the launch of the grouped product kernel (lamina.kernels.products.grouped)."""

from typing import Any

from lamina.core.program import Call
from lamina.schedules.contraction import GemmConfig

from .operands import said, sizes, strides, tensors


def grouped(call: Call) -> dict[str, Any]:
    """Describes the launch for a call, with as many programs as `programs` allows and blocks need. See
    kernels/products/grouped.py."""
    (x, w, *_), out, given = tensors(call), call.outs[0], dict(call.kwargs)
    config = GemmConfig.read(str(given["schedule"]))
    (rows, inner), (groups, _, columns) = sizes(x), sizes(w)
    blocks = (-(-rows // config.m) + groups) * -(-columns // config.n)  # an upper bound
    most = given["programs"]
    assert isinstance(most, int)
    programs = max(1, min(blocks, most))
    constants = {
        "X": strides(x), "W": strides(w), "OUT": strides(out), "ROWS": rows, "COLUMNS": columns, "INNER": inner, "GROUPS": groups,
        "PROGRAMS": programs, "M": config.m, "N": config.n, "K": config.k,
    }  # fmt: skip
    names = {"x": "x0", "w": "x1", "ends": "x2", "out": "y0"}
    launch = said(given, names, constants, programs, config.warps, config.stages, 2 * rows * columns * inner)
    return launch | {key: given[key] for key in ("hook", "epilogue", "fused") if key in given}

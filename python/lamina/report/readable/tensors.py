"""Writes linalg and tensor ops in index notation: `%3[i, j] = max(%1[i, j], 0)`."""

import re
from collections.abc import Callable

from torch_mlir import ir

from lamina.passes.ir.reading import integer, ops_in

from .names import Names, size_texts, type_text
from .scalars import Text, expression

_LOOPS = "ijklmnpq"
_ACCUMULATE = {"arith.addf": "+=", "arith.addi": "+=", "arith.mulf": "*=", "arith.maximumf": "max=", "arith.minimumf": "min="}
_START = {"+=": "0", "*=": "1"}


def loop_name(number: int) -> str:
    """Returns i, j, k, ... for the loops of an op, then d8, d9, ..."""
    return _LOOPS[number] if number < len(_LOOPS) else f"d{number}"


def access(value: str, expressions: ir.AffineMap) -> str:
    """Returns an element of a tensor, "%1[i, 2 * j + k]"."""
    parts = [re.sub(r"d(\d+)", lambda d: loop_name(int(d[1])), str(e)) for e in expressions.results]
    return f"{value}[{', '.join(parts)}]" if parts else f"{value}[]"


def generic_lines(op: ir.Operation, names: Names) -> list[str]:
    """Returns an element of each result of a linalg.generic, and beneath it the values that its body uses twice."""
    maps = [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
    kinds = ["reduction" in str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
    block = op.regions[0].blocks[0]
    texts = {arg: Text(access(names[v], m)) for arg, v, m in zip(block.arguments, op.operands, maps, strict=True)}
    *_, end = ops_in(block)
    inside: list[str] = []

    def operand(value: ir.Value) -> Text:
        """Returns the text of a value in the body, and names one that is used twice."""
        if value not in texts:
            text = _body_expression(value.owner.operation, operand, names)
            if len(list(value.uses)) > 1 and len(text.text) > 6:
                inside.append(f"  where t{len(inside)} = {text.text}")
                text = Text(f"t{len(inside) - 1}")
            texts[value] = text
        return texts[value]

    lines: list[str] = []
    first = len(op.operands) - len(op.results)
    for number, (result, yielded) in enumerate(zip(op.results, end.operands, strict=True)):
        total = block.arguments[first + number]
        sign, value = _accumulated(yielded, total)
        written = access(names[result], maps[first + number])
        line = f"{written} {sign} {operand(value).text} : {type_text(result.type)}"
        loops = [f"{loop_name(d)} < {size}" for d, size in enumerate(_sizes(op, maps)) if kinds[d]]
        start = names[op.operands[first + number]]
        begin = f" from {start}" if list(total.uses) and _START.get(sign) != start else ""
        lines.append(line + (f"  for {', '.join(loops)}{begin}" if loops else begin))
    return lines + inside


def _accumulated(yielded: ir.Value, total: ir.Value) -> tuple[str, ir.Value]:
    """Returns "+=" and what is added where a body adds to its result, else "=" and the value."""
    op = None if isinstance(yielded, ir.BlockArgument) else yielded.owner.operation
    if op is not None and op.name in _ACCUMULATE and total in list(op.operands):
        return _ACCUMULATE[op.name], next(v for v in op.operands if v != total)
    return "=", yielded


def _body_expression(op: ir.Operation, operand: Callable[[ir.Value], Text], names: Names) -> Text:
    if op.name == "linalg.index":
        return Text(loop_name(integer(op, "dim")))
    if op.name == "tensor.extract":
        source, *indices = op.operands
        return Text(f"{names[source]}[{', '.join(operand(v).text for v in indices)}]")
    return expression(op, operand)


def _sizes(op: ir.Operation, maps: list[ir.AffineMap]) -> list[str]:
    """Returns the loops' sizes, "?" for one that no operand has as a dimension of its own."""
    sizes = ["?"] * maps[0].n_dims
    for value, map_ in zip(op.operands, maps, strict=True):
        for size, e in zip(size_texts(ir.RankedTensorType(value.type)), map_.results, strict=True):
            if isinstance(e, ir.AffineDimExpr):
                sizes[e.position] = size
    return sizes

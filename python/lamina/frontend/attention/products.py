"""Reads matrix products in a captured graph (matmul, bmm, baddbmm, einsum) and their operands."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import fx

from ..fx.reading import arguments_by_name, dtype, is_in_place, name, number, same_elements, scaled, shape, transposed


@dataclass(frozen=True)
class Operand:
    """An operand of a product: `node`, permuted and scaled.

    order  of its dimensions; none: its own
    scale  a factor
    seen   nodes that were looked through
    """

    node: fx.Node
    order: tuple[int, ...] = ()
    scale: float = 1.0
    seen: tuple[fx.Node, ...] = ()

    def swapped(self) -> "Operand":
        """Returns the operand with its last two dimensions swapped."""
        rank = len(shape(self.node))
        order = self.order or tuple(range(rank))
        new = (*order[:-2], order[-1], order[-2])
        return Operand(self.node, () if new == tuple(range(rank)) else new, self.scale, self.seen)


@dataclass(frozen=True)
class FxProduct:
    """A batched matrix product.

    left   (batch..., rows, inner)
    right  (batch..., inner, columns)
    order  of the dimensions of (batch..., rows, columns) in the result (none: that)
    added  the tensor added to it, with factor 1
    scale  of the product
    """

    left: Operand
    right: Operand
    order: tuple[int, ...] = ()
    added: fx.Node | None = None
    scale: float = 1.0


def product(node: fx.Node) -> FxProduct | None:
    """Reads a node as a matrix product; None if it is none."""
    kind = name(node)
    if kind == "einsum":
        return _einsum(node)
    if kind == "baddbmm":
        args = arguments_by_name(node, "input", "batch1", "batch2")
        alpha, beta = (number(args.get(key, 1)) for key in ("alpha", "beta"))
        one, two, added = (args.get(key) for key in ("batch1", "batch2", "input"))
        if alpha is None or alpha <= 0 or beta not in (0, 1) or is_in_place(node):
            return None
        found = _plain(one, two)
        kept = added if beta == 1 and isinstance(added, fx.Node) else None
        return None if found is None else FxProduct(found.left, found.right, (), kept, alpha)
    if kind not in ("matmul", "bmm"):
        return None
    args = arguments_by_name(node, "input", "other")
    return _plain(args.get("input"), args.get("other")) if len(args) == 2 else None


def _plain(one: object, two: object) -> FxProduct | None:
    if not isinstance(one, fx.Node) or not isinstance(two, fx.Node) or not 2 <= len(shape(one)) == len(shape(two)):
        return None
    return FxProduct(Operand(one), Operand(two))


def _einsum(node: fx.Node) -> FxProduct | None:
    """Reads an einsum of two operands: one label is contracted, each operand has one label of its own, the others are batch
    dimensions."""
    text, *operands = node.args
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = [*operands[0]]
    inputs, arrow, out = str(text).replace(" ", "").partition("->")
    labels = inputs.split(",")
    if not arrow or len(labels) != 2 or len(operands) != 2 or any(not t.isalpha() or len({*t}) != len(t) for t in (*labels, out)):
        return None
    left, right = operands
    if not isinstance(left, fx.Node) or not isinstance(right, fx.Node):
        return None
    one, two = labels
    batch = [c for c in one if c in two and c in out]
    inner = [c for c in one if c in two and c not in out]
    row, column = [c for c in one if c not in two], [c for c in two if c not in one]
    if not len(inner) == len(row) == len(column) == 1 or {*out} != {*batch, *row, *column}:
        return None
    if [*out[-2:]] == [*column, *row]:  # the second operand's label is first: swap them
        one, two, left, right, row, column = two, one, right, left, column, row
    if {*out[-2:]} == {*row, *column}:
        batch = [*out[:-2]]
    return FxProduct(
        Operand(left, _order([*batch, *row, *inner], one)),
        Operand(right, _order([*batch, *inner, *column], two)),
        _order(out, [*batch, *row, *column]),
    )


def _order(new: Sequence[str], old: Sequence[str]) -> tuple[int, ...]:
    """Returns the permutation that makes `new` of `old`; () if they are the same."""
    return () if [*new] == [*old] else tuple([*old].index(c) for c in new)


def traced_back(operand: Operand) -> Operand:
    """Returns the operand behind transposes of its last two dimensions, copies and products by positive numbers."""
    while not is_in_place(operand.node):
        node, times, swap, copied = operand.node, scaled(operand.node), transposed(operand.node), same_elements(operand.node)
        if times is not None and times[1] > 0:
            operand = Operand(times[0], operand.order, operand.scale * times[1], (*operand.seen, node))
        elif swap is not None:
            operand = Operand(swap, _through_swap(operand.order, len(shape(node))), operand.scale, (*operand.seen, node))
        elif copied is not None and shape(copied) == shape(node) and dtype(copied) is dtype(node):
            operand = Operand(copied, operand.order, operand.scale, (*operand.seen, node))
        else:
            break
    return operand


def _through_swap(order: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Composes `order` with a swap of the last two dimensions; () for the identity."""
    swap = (*range(rank - 2), rank - 1, rank - 2)
    new = tuple(swap[i] for i in order or range(rank))
    return () if new == tuple(range(rank)) else new

"""Rewrites ops that fail for some values of their operands with `lamina.check`, which kernels compute.

    div(x, y)                                      ->   div(x, where(check(y != 0, "ZeroDivisionError"), y, 1))
    _assert_async(all(x >= 0), text); eq(x, i)     ->   eq(where(check(x >= 0, text), x, 0), i)

On a GPU a division by zero has no meaning and is not an error, as in eager.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, fx

from ..decompositions.undecided import is_unbacked
from ..fx import support
from ..fx.ops.check_op import CHECK
from ..fx.rewriter import insert, insert_number
from ..fx.sizes import elements

aten = torch.ops.aten

_ZERO = "ZeroDivisionError"
_OF_ALL = (
    aten.all.default, aten.all.dim, aten.all.dims, aten.amin.default, aten._to_copy.default,
    torch.ops.prims.convert_element_type.default,
)  # fmt: skip
"""Ops from truth values to whether they all hold."""
_OF_TENSORS = {
    aten.remainder.Scalar: aten.remainder.Tensor, aten.fmod.Scalar: aten.fmod.Tensor, aten.div.Scalar_mode: aten.div.Tensor_mode,
}  # fmt: skip
_COMPARISONS = tuple(getattr(aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge"))


def guard_divisions(graph: fx.Graph) -> None:
    """Makes divisors of integers 1 where they are 0, in place; on CPUs that fails."""
    for node in list(graph.nodes):
        if node.op != "call_function" or not support.divides_integers(node) or not isinstance(divisor := node.args[1], fx.Node):
            continue
        size = divisor.meta["val"]
        if isinstance(size, Tensor):
            node.update_arg(1, _nonzero(node, divisor))
        elif is_unbacked(size):  # other symbolic sizes are never 0: torch compiles 0 and 1 separately
            number = insert_number(node, divisor, node.meta["val"])
            node.target = _OF_TENSORS.get(node.target, node.target)
            node.update_arg(1, _nonzero(node, number))


def _nonzero(before: fx.Node, divisor: fx.Node) -> fx.Node:
    value = divisor.meta["val"]
    test = insert(before, torch.empty_like(value, dtype=torch.bool), aten.ne.Scalar, divisor, 0)
    if value.device.type == "cpu":
        test = insert(before, test.meta["val"], CHECK, test, _ZERO)
    return _where(before, test, divisor, 1)


def _where(before: fx.Node, test: fx.Node, x: fx.Node, otherwise: int) -> fx.Node:
    value = x.meta["val"]
    return insert(before, torch.empty_like(value), aten.where.self, test, x, insert_number(before, otherwise, value))


def check_elements(graph: fx.Graph) -> None:
    """Checks each element where it is read, in place, in the place of assertions that all elements of a tensor compare as they
    should with a number. Others stay, as do those of tensors that nothing reads later."""
    for node in graph.find_nodes(op="call_function", target=aten._assert_async.msg):
        compared = _compared(node.args[0])
        if compared is None:
            continue
        x, readers = compared.args[0], list(_readers(compared, node))
        if not readers or x.meta["val"].dtype not in support.COMPUTED:
            continue
        kept = _where(readers[0], insert(readers[0], compared.meta["val"], CHECK, compared, node.args[1]), x, 0)
        for reader in readers:
            reader.replace_input_with(x, kept)
        graph.erase_node(node)


def _compared(test: fx.Node) -> fx.Node | None:
    """Returns the comparison of a tensor with a number of which `test` says that it holds for all elements; None for others."""
    comparison = None
    if elements(test.meta["val"]) != 1:
        return None
    while test.target in (*_COMPARISONS, *_OF_ALL):
        if test.target in _COMPARISONS:
            comparison = test
            if test.target is not aten.ne.Scalar or test.args[1] != 0:
                break
        test = test.args[0]  # type: ignore[assignment]
    return comparison


def _readers(compared: fx.Node, assertion: fx.Node) -> Iterator[fx.Node]:
    """Yields the calls after an assertion that read, for more than assertions, what is compared."""
    order = {n: i for i, n in enumerate(assertion.graph.nodes)}
    for user in sorted(compared.args[0].users, key=order.__getitem__):  # type: ignore[union-attr]
        if order[user] > order[assertion] and user.op == "call_function" and not support.has_effect(user) and not _asserts(user):
            yield user


def _asserts(node: fx.Node) -> bool:
    """Returns whether all that comes of a node is assertions."""
    if node.target is aten._assert_async.msg:
        return True
    return bool(node.users) and node.target in (*_OF_ALL, *_COMPARISONS) and all(map(_asserts, node.users))

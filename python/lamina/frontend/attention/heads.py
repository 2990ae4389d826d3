"""Grouped-query attention in captured graphs: finds keys and values whose heads are repeated for several heads of queries.

Grouped-query attention is from Ainslie and others, 2023.
"""

import operator

from torch import fx

from ..fx.reading import name, shape

_RESHAPES = ("reshape", "view", "_unsafe_view", "clone", "contiguous")


def before_repetition(node: fx.Node) -> fx.Node | None:
    """Returns the tensor whose heads `node`, of shape (batch, heads, length, size), repeats: by repeat_interleave, or by a
    dimension that is added, expanded and merged. None if it does neither."""
    if name(node) == "repeat_interleave":
        named = dict(zip(("source", "repeats", "dim"), node.args, strict=False)) | node.kwargs
        source = named.get("source")
        plain = isinstance(source, fx.Node) and len(shape(source)) == 4 and isinstance(named.get("repeats"), int)
        return source if plain and named.get("dim") in (1, -3) else None
    reshaped = node
    while name(reshaped) in _RESHAPES and isinstance(reshaped.args[0], fx.Node):
        reshaped = reshaped.args[0]
    added = _unsliced(reshaped.args[0]) if reshaped is not node and name(reshaped) == "expand" else None
    source = _unsliced(added.args[0]) if isinstance(added, fx.Node) and _adds_a_dimension(added) else None
    if not isinstance(source, fx.Node) or len(shape(source)) != 4 or len(shape(reshaped)) != 5:
        return None
    batch, heads, length, size = shape(source)
    times = shape(reshaped)[2]
    whole = (batch, heads, times, length, size), (batch, heads * times, length, size)
    return source if (shape(reshaped), shape(node)) == whole else None


def _unsliced(node: object) -> object:
    """Returns the source behind slices that take everything: tracing `x[:, :, None]` leaves some."""
    while isinstance(node, fx.Node) and name(node) == "slice" and shape(node) == shape(node.args[0]):
        node = node.args[0]
    return node


def _adds_a_dimension(node: fx.Node) -> bool:
    """Returns whether a node inserts a dimension of size 1 at position 2."""
    if name(node) == "unsqueeze":
        return 2 in (*node.args[1:], node.kwargs.get("dim"))
    if node.target is not operator.getitem or not isinstance(node.args[1], tuple):
        return False
    every = slice(None)
    return node.args[1][:3] == (every, every, None) and all(i == every for i in node.args[1][3:])

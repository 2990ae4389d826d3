"""Matches written-out attention backward, from the product with values through the softmax to the product of queries and keys."""

from dataclasses import dataclass, replace

from torch import fx

from ..fx.reading import drop, is_softmax, name, same_elements, scaled, shape, users, value, without_dropout
from .products import FxProduct, product
from .score_masks import Term, terms


@dataclass(frozen=True)
class Written:
    """Attention as a model writes it out.

    node    the product with values
    last    that product, as `product` reads it
    chain   nodes from its left operand up to the product of queries and keys
    first   the product of queries and keys
    steps   the ops on the scores (masks), in order
    scale   of the scores, before those ops
    cap     soft cap of the scaled scores, before those ops, too; 0 for none
    shape   of the scores at those ops: two to four dimensions
    dropout the probability of a weight to be dropped
    """

    node: fx.Node
    last: FxProduct
    chain: tuple[fx.Node, ...]
    first: FxProduct
    steps: tuple[Term, ...]
    scale: float
    shape: tuple[int, ...]
    dropout: float = 0.0
    cap: float = 0.0


def read_chain(node: fx.Node, gm: fx.GraphModule) -> Written | None:
    """Reads `node` as the product with values of written-out attention; None if it is not."""
    last = product(node)
    if last is None or last.left.order or last.added is not None or last.scale != 1:
        return None
    current, user = last.left.node, node
    chain, dropout = [], 0.0
    while users(current) == [user] and not is_softmax(current):
        source, drops = without_dropout(current) or same_elements(current), drop(current)
        if drops is not None and not dropout:
            source, dropout = drops
        if source is None or shape(source)[-2:] != shape(current)[-2:]:
            return None
        chain.append(current)
        current, user = source, current
    scores = current.args[0] if current.args else current.kwargs.get("input")
    if users(current) != [user] or not is_softmax(current) or not isinstance(scores, fx.Node):
        return None
    return _scores(scores, current, Written(node, last, (*chain, current), last, (), 1.0, (), dropout), gm)


def _scores(scores: fx.Node, reader: fx.Node, below: Written, gm: fx.GraphModule) -> Written | None:
    """Completes `below`, the match so far, upward from `scores` to the product of queries and keys, by the first path that leads
    there."""
    ways = [(scores, reader, below)]
    while ways:
        current, user, below = ways.pop()
        if users(current) != [user] or value(current) is None:
            continue
        match = replace(below, chain=(*below.chain, current))
        first = product(current)
        if first is not None and not first.order:
            if first.added is not None:
                match = _with(match, Term(first.added), current) or below
            if match is not below:
                scale = match.scale * first.scale * (match.cap or 1.0)
                return replace(match, first=first, scale=scale, shape=match.shape or shape(current))
            continue
        times, same = scaled(current), same_elements(current)
        if times is not None and times[1] > 0:
            ways.append((times[0], current, replace(match, scale=match.scale * times[1])))
        elif name(current) == "tanh" and not match.cap and isinstance(source := current.args[0], fx.Node):
            ways.append((source, current, replace(match, scale=1.0, cap=match.scale)))
        elif same is not None and shape(same)[-2:] == shape(current)[-2:]:
            ways.append((same, current, match))
        else:
            more = [(source, current, _with(match, term, current)) for source, term in terms(current, gm)]
            ways += [(source, user, whole) for source, user, whole in reversed(more) if whole is not None]
    return None


def _with(match: Written, term: Term, node: fx.Node) -> Written | None:
    """Returns the match with one more op before those found so far; None if a scale or a soft cap comes between, or the shapes
    differ."""
    if match.scale != 1 or match.cap or match.shape not in ((), shape(node)):
        return None
    return replace(match, steps=(term, *match.steps), shape=shape(node))

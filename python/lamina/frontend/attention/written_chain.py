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


def read(node: fx.Node, gm: fx.GraphModule) -> Written | None:
    """Reads `node` as the product with values of written-out attention; None if it is not."""
    last = product(node)
    if last is None or last.left.order or last.added is not None or last.scale != 1:
        return None
    at, user = last.left.node, node
    chain, dropout = [], 0.0
    while users(at) == [user] and not is_softmax(at):
        source, drops = without_dropout(at) or same_elements(at), drop(at)
        if drops is not None and not dropout:
            source, dropout = drops
        if source is None or shape(source)[-2:] != shape(at)[-2:]:
            return None
        chain.append(at)
        at, user = source, at
    scores = at.args[0] if at.args else at.kwargs.get("input")
    if users(at) != [user] or not is_softmax(at) or not isinstance(scores, fx.Node):
        return None
    return _scores(scores, at, Written(node, last, (*chain, at), last, (), 1.0, (), dropout), gm)


def _scores(scores: fx.Node, reader: fx.Node, below: Written, gm: fx.GraphModule) -> Written | None:
    """Completes `below`, the match so far, upward from `scores` to the product of queries and keys, by the first path that leads
    there."""
    ways = [(scores, reader, below)]
    while ways:
        at, user, below = ways.pop()
        if users(at) != [user] or value(at) is None:
            continue
        found = replace(below, chain=(*below.chain, at))
        first = product(at)
        if first is not None and not first.order:
            if first.added is not None:
                found = _with(found, Term(first.added), at) or below
            if found is not below:
                scale = found.scale * first.scale * (found.cap or 1.0)
                return replace(found, first=first, scale=scale, shape=found.shape or shape(at))
            continue
        times, same = scaled(at), same_elements(at)
        if times is not None and times[1] > 0:
            ways.append((times[0], at, replace(found, scale=found.scale * times[1])))
        elif name(at) == "tanh" and not found.cap and isinstance(source := at.args[0], fx.Node):
            ways.append((source, at, replace(found, scale=1.0, cap=found.scale)))
        elif same is not None and shape(same)[-2:] == shape(at)[-2:]:
            ways.append((same, at, found))
        else:
            more = [(source, at, _with(found, term, at)) for source, term in terms(at, gm)]
            ways += [(source, user, whole) for source, user, whole in reversed(more) if whole is not None]
    return None


def _with(found: Written, term: Term, at: fx.Node) -> Written | None:
    """Returns the match with one more op before those found so far; None if a scale or a soft cap comes between, or the shapes
    differ."""
    if found.scale != 1 or found.cap or found.shape not in ((), shape(at)):
        return None
    return replace(found, steps=(term, *found.steps), shape=shape(at))

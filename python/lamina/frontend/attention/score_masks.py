"""Reads the masks of written-out attention: additive biases and fills of its scores, merged into one bias."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

from lamina.core.sizes import SizeLike, is_symbolic
from lamina.passes.families.attention.masks.meaning import HIDES
from lamina.passes.families.attention.masks.positions import Region

from ..fx.known import known_value
from ..fx.reading import arguments_by_name, is_in_place, name, shape, value
from ..fx.rewriter import Graft
from .positions import TwoValued, read_positions
from .ranges import bounds, constant

aten = torch.ops.aten

_SWALLOWS = -1e9
"""A fill so large that adding a score to it leaves it unchanged: a fully hidden row then has equal weights, whether the fill is
added to the scores or replaces them."""


@dataclass(frozen=True)
class Term:
    """One op on scores: an addition of `tensor` (fill: None), or a fill of the scores where `tensor` equals `where`."""

    tensor: fx.Node
    fill: float | None = None
    where: bool = True


@dataclass(frozen=True)
class Bias:
    """The bias that attention adds to its scores, of four dimensions, each that of the scores or 1.

    lost  marks rows that -inf hides as a whole, which are NaN in eager and may be zero in fused kernels: (1 or batch, 1 or heads,
          1 or rows, 1); None if no row can be
    """

    node: fx.Node
    lost: fx.Node | None


def terms(node: fx.Node, gm: fx.GraphModule) -> Iterator[tuple[fx.Node, Term]]:
    """Yields the ways to read a node as an op on scores: the scores, which have the node's shape, and the op."""
    kind = name(node)
    candidates: list[tuple[object, Term]] = []
    if kind == "add":
        args = arguments_by_name(node, "input", "other")
        one, two = args.get("input"), args.get("other")
        pairs = [(one, two)] if is_in_place(node) else [(one, two), (two, one)]
        candidates = [(a, Term(b)) for a, b in pairs if isinstance(b, fx.Node) and _is_float(b) and args.get("alpha", 1) == 1]
    elif kind == "masked_fill":
        args = arguments_by_name(node, "input", "mask", "value")
        candidates = _filled(args.get("input"), args.get("mask"), args.get("value"), True, gm)
    elif kind == "where":
        args = arguments_by_name(node, "condition", "input", "other")
        seen, one, two = (args.get(a) for a in ("condition", "input", "other"))
        candidates = [*_filled(one, seen, two, False, gm), *_filled(two, seen, one, True, gm)]
    for scores, term in candidates:
        if isinstance(scores, fx.Node) and value(scores) is not None and shape(scores) == shape(node):
            yield scores, term


def _filled(scores: object, mask: object, fill: object, where: bool, gm: fx.GraphModule) -> list[tuple[object, Term]]:
    val, number = value(mask), constant(fill, gm)
    usable = isinstance(mask, fx.Node) and val is not None and val.dtype is torch.bool
    return [(scores, Term(mask, number, where))] if usable and number is not None and number <= HIDES else []  # type: ignore[arg-type]


def _is_float(node: fx.Node) -> bool:
    found = value(node)
    return found is not None and found.dtype.is_floating_point


@dataclass(frozen=True)
class Shown:
    """The result of ops on scores of zero at symbolic sizes: they stay zero in a region of positions, and are at most `fill`
    elsewhere.

    square  there are as many queries as keys
    """

    region: Region
    fill: float
    square: bool

    @property
    def has_rows(self) -> bool:
        """Whether each query certainly sees a key."""
        return not self.region.bounds or (self.square and self.region.has_own())


def known_bias(
    steps: Sequence[Term], gm: fx.GraphModule, before: fx.Node, rows: SizeLike, columns: SizeLike
) -> Tensor | Shown | None:
    """Returns the result of these ops, in order, on scores of zero, (..., rows, columns); None if that depends on more than
    shapes."""
    if is_symbolic((rows, columns)):
        parts = [visible_positions(step, gm) for step in steps]
        if None in parts:
            return None
        regions, fills = zip(*(part for part in parts if part is not None), strict=True)
        return Shown(reduce(and_, regions), max(fills), rows == columns)
    with _disable_current_modes(), torch.no_grad():
        bias = torch.zeros(1, 1)
        for step in steps:
            tensor = known_value(step.tensor, gm, before)
            if tensor is None:
                return None
            here = tensor.cpu()
            if step.fill is None:
                bias = bias + here.float()
            else:
                bias = torch.where(here if step.where else ~here, torch.tensor(step.fill), bias)
        return bias.expand(*bias.shape[:-2], rows, columns)


def visible_positions(step: Term, gm: fx.GraphModule) -> tuple[Region, float] | None:
    """Returns where an op leaves scores as they are, and the most that it turns others into; None if it does more than hide
    positions."""
    form = read_positions(step.tensor, gm)
    if not isinstance(form, TwoValued):
        return None
    if step.fill is not None:
        region = form.where(lambda x: bool(x) is not step.where)
        return None if region is None else (region, step.fill)
    region, hidden = form.where(lambda x: x == 0), [x for x in (form.inside, form.outside) if x != 0]
    return (region, max(hidden, default=-math.inf)) if region is not None and all(x <= HIDES for x in hidden) else None


def is_exact(steps: Sequence[Term], mask: Tensor | Shown | None) -> bool:
    """Returns whether adding the fills gives the same as replacing scores by them. Beside other scores a fill hides either way; in
    a row that is hidden as a whole it must swallow the score or make it NaN. mask: the result of `known_bias`."""
    if isinstance(mask, Shown) and mask.has_rows:
        return True
    if isinstance(mask, Tensor) and not bool((mask <= HIDES).all(-1).any()):
        return True
    return all(step.fill is None or step.fill <= _SWALLOWS for step in steps)


def emit_bias(
    graft: Graft, steps: Sequence[Term], gm: fx.GraphModule, query: Tensor, scores: Sequence[int], mask: Tensor | Shown | None,
    gpu: bool,
) -> Bias | None:  # fmt: skip
    """Emits the bias that these ops amount to, for attention with this query. None if a cast could lose something.

    scores  the shape of the scores, of two to four dimensions
    gpu     the graph is compiled for a GPU
    """
    dtype = _dtype(steps, query, gpu)
    if dtype is None:
        return None
    whole: fx.Node | None = None
    for step in steps:
        if step.fill is None:
            whole = step.tensor if whole is None else graft.call(aten.add.Tensor, whole, step.tensor)
            continue
        here = whole if whole is not None else graft.number(0.0, dtype, query.device)
        lowest = torch.finfo(dtype).min if math.isfinite(step.fill) else -math.inf
        fill = graft.number(max(step.fill, lowest), dtype, query.device)
        whole = graft.call(aten.where.self, step.tensor, *((fill, here) if step.where else (here, fill)))
    assert whole is not None
    four_sizes = [1] * (len(scores) - len(shape(whole))) + [*shape(whole)]
    four_sizes = [1, 1, *four_sizes][-4:] if len(four_sizes) != 3 else [four_sizes[0], 1, *four_sizes[1:]]
    if four_sizes != [*shape(whole)]:
        whole = graft.call(aten.reshape.default, whole, four_sizes)
    lost = None if _has_rows(steps, gm, mask) else _lost(graft, whole)
    return Bias(whole, lost)


def _dtype(steps: Sequence[Term], query: Tensor, gpu: bool) -> torch.dtype | None:
    """Returns the dtype of the bias: kernels support the query's, on the CPU also f32. None too for masks on another device."""
    if any(value(step.tensor).device != query.device for step in steps):  # type: ignore[union-attr]
        return None
    adds = {value(step.tensor).dtype for step in steps if step.fill is None}  # type: ignore[union-attr]
    if len(adds) > 1:
        return None
    dtype = next(iter(adds), query.dtype)
    is_wider = dtype is torch.float32 and query.dtype in (torch.float16, torch.bfloat16) and not gpu
    return dtype if dtype is query.dtype or is_wider else None


def _has_rows(steps: Sequence[Term], gm: fx.GraphModule, mask: Tensor | Shown | None) -> bool:
    """Returns whether each row certainly has an element that is not -inf."""
    if isinstance(mask, Shown) and mask.has_rows:
        return True
    if isinstance(mask, Tensor):
        return not bool(mask.isneginf().all(-1).any())
    (step, *more) = steps
    if more:
        return False
    return math.isfinite(step.fill) if step.fill is not None else bounds(step.tensor, gm) is not None


def _lost(graft: Graft, bias: fx.Node) -> fx.Node:
    return graft.call(aten.all.dim, graft.call(aten.eq.Scalar, bias, -math.inf), -1, True)

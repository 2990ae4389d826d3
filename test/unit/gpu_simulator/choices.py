"""Buffers chosen by a number (scf.index_switch), which may differ from lane to lane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from .batch import Array, Batch
from .memory import View


@dataclass
class Choice:
    """which: of every lane, the number of its view."""

    which: Array
    views: Sequence[View]


def switch(op: ir.Operation, yields: Callable[[Batch, int], list]) -> Callable:
    """yields: what a region, by its number, gives; region 0 is the default."""
    cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))

    def run(batch: Batch, number: Array) -> object:
        number = batch.wide(number)
        region = sum(((number == case) * (i + 1) for i, case in enumerate(cases)), np.zeros(batch.size, np.int64))
        found = [yields(batch, i) for i in range(len(cases) + 1)]
        chosen = [Choice(region, views) for views in zip(*found, strict=True)]
        return chosen[0] if len(chosen) == 1 else chosen

    return run


def each(run: Callable) -> Callable:
    """Calls `run` for the lanes of each view separately."""

    def split(batch: Batch, *values: object) -> object:
        choice = next((v for v in values if isinstance(v, Choice)), None)
        if choice is None:
            return run(batch, *values)
        result: object = None
        views = dict(enumerate(choice.views))
        for i in np.unique(choice.which[batch.lanes]):
            mask = batch.mask & (choice.which == i)
            with batch.only(mask):
                found = run(batch, *[views[i] if v is choice else v for v in values])
            if isinstance(found, View):
                views[i] = found
            elif found is not None:
                result = found if result is None else np.where(mask.reshape(-1, *[1] * (found.ndim - 1)), batch.wide(found), result)
        moved = any(a is not b for a, b in zip(views.values(), choice.views, strict=True))
        return Choice(choice.which, list(views.values())) if moved else result

    return split

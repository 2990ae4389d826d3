"""Graphs that transpose, for sweeps over sizes: each reads its input across the order in which its result lies in memory."""

from typing import Any

import torch
from sized_graphs import Sized, two, vectors, x
from torch import Tensor

CHANNELS, HEADS = 24, 16


def batches(b: int, n: int) -> tuple[Any, ...]:
    return (x(3, b, n),)


def batches_of_known_columns(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, n, CHANNELS),)


def batches_of_known_rows(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, CHANNELS, n),)


def images(b: int, n: int) -> tuple[Any, ...]:
    return (x(2, CHANNELS, b, n),)


def images_with_channels_last(b: int, n: int) -> tuple[Any, ...]:
    return (x(2, b, n, CHANNELS),)


def sequences(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, n, 3, HEADS),)


def heads(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, 3, n, HEADS),)


def apart(b: int, n: int) -> tuple[Any, ...]:
    """Returns a part of a matrix, whose rows start anywhere and are not adjacent."""
    return (x(b, n + 5)[:, 3:-2],)


def with_steps(b: int, n: int) -> tuple[Any, ...]:
    """Returns every other row."""
    return (x(2 * b, n)[::2],)


def known(a: Tensor, dim: int, size: int) -> Tensor:
    """Returns a tensor, of which a dimension is known to have this size: a guard on it holds for all calls."""
    return a.view(*a.shape[:dim], size, *a.shape[dim + 1 :])


def transposed(a: Tensor) -> Tensor:
    return a.transpose(-1, -2).contiguous() + 1


TRANSPOSES: dict[str, Sized] = {
    "matrix": Sized(transposed, vectors),
    "bf16": Sized(lambda a: transposed(a.bfloat16()), vectors, exact=True),
    "bytes": Sized(lambda a: transposed((a * 9).to(torch.int8)), vectors, exact=True),
    "flags": Sized(lambda a: ~(a > 0).t().contiguous(), vectors, exact=True),
    "apart": Sized(transposed, apart),
    "with steps": Sized(transposed, with_steps),
    "batches": Sized(transposed, batches),
    "known columns": Sized(lambda a: transposed(known(a, 2, CHANNELS)), batches_of_known_columns),
    "known rows": Sized(lambda a: transposed(known(a, 1, CHANNELS)), batches_of_known_rows),
    "channels last": Sized(lambda a: known(a, 1, CHANNELS).permute(0, 2, 3, 1).contiguous() * 2, images),
    "channels first": Sized(lambda a: known(a, 3, CHANNELS).permute(0, 3, 1, 2).contiguous() * 2, images_with_channels_last),
    "heads apart": Sized(lambda a: known(a, 3, HEADS).transpose(1, 2).contiguous() * 2, sequences),
    "heads together": Sized(lambda a: known(a, 3, HEADS).transpose(1, 2).contiguous() * 2, heads),
    "with others": Sized(lambda a, b: ((a.exp().t() + b.t().sin() * b[:1].t()).relu() + b[:, 0]).contiguous(), two),
    "both orders": Sized(lambda a, b, c: ((a.sin().t() + b).relu() * c).contiguous(), lambda b, n: (x(b, n), x(n, b), x(b))),
}

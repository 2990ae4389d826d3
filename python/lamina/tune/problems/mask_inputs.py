"""Inputs for tuning attention whose mask is not known at compile time: half of the mask is hidden, in square blocks.

With random bools no block would be hidden, and block lists could never pay.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.passes.families.attention.forward import Attention

from .gradient_inputs import Settle

SQUARE = 256  # queries and keys: a few blocks of each of Lamina's kernels


def squares_hidden(op: ir.Operation, attention: Attention) -> Settle:
    """Returns a function that hides half of the square blocks of a call's mask, among the inputs of a cut of the call and the ops
    before it. Every query sees some keys."""
    made = [v for other in attention.before for v in other.results]
    read = dict.fromkeys(v for other in (*attention.before, op) for v in other.operands if v not in made)
    number = next(i for i, v in enumerate(read) if v == attention.mask)

    def settle(inputs: Sequence[Tensor]) -> None:
        hide_squares(inputs[number])

    return settle


def hide_squares(mask: Tensor) -> None:
    """Hides random square blocks, in place, in a bool or additive mask."""
    queries, keys = (-(-n // SQUARE) for n in mask.shape[-2:])
    seen = torch.rand(queries, keys, device=mask.device) < 0.5
    row = torch.arange(queries, device=mask.device)
    seen[row, row * keys // queries] = True
    whole = seen.repeat_interleave(SQUARE, 0).repeat_interleave(SQUARE, 1)[: mask.shape[-2], : mask.shape[-1]]
    mask.copy_(whole if mask.dtype is torch.bool else torch.where(whole, 0.0, -torch.inf))

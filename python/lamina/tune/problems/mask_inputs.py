"""What attention is measured on where its mask hides and nobody knows what: half of it, in squares.

Of bools at random no block would be hidden, and lists of blocks could never pay.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.passes.families.attention.forward import Attention

from .gradient_inputs import Settle

SQUARE = 256  # queries and keys: some blocks of each kernel of ours


def squares_hidden(op: ir.Operation, attention: Attention) -> Settle:
    """What hides half of the squares of the mask of a call, of a cut of that and of what comes before it; every query sees some."""
    made = [v for other in attention.before for v in other.results]
    read = dict.fromkeys(v for other in (*attention.before, op) for v in other.operands if v not in made)
    number = next(i for i, v in enumerate(read) if v == attention.mask)

    def settle(inputs: Sequence[Tensor]) -> None:
        hide_squares(inputs[number])

    return settle


def hide_squares(mask: Tensor) -> None:
    """In place, in a mask of bools or of what is added."""
    queries, keys = (-(-n // SQUARE) for n in mask.shape[-2:])
    seen = torch.rand(queries, keys, device=mask.device) < 0.5
    row = torch.arange(queries, device=mask.device)
    seen[row, row * keys // queries] = True
    whole = seen.repeat_interleave(SQUARE, 0).repeat_interleave(SQUARE, 1)[: mask.shape[-2], : mask.shape[-1]]
    mask.copy_(whole if mask.dtype is torch.bool else torch.where(whole, 0.0, -torch.inf))

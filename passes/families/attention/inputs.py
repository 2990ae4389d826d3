"""Adapts the random inputs of a measurement to attention: masks that hide blocks, and results of a forward pass for gradients.

With random bools no block of a mask would be hidden, and block lists could never pay; random log-sum-exps would make gradients
overflow.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_mlir import ir

from .backward import Gradients
from .forward import Attention

_BLOCK = 256  # queries and keys: a few blocks of each of Lamina's kernels


def settle_mask(op: ir.Operation, attention: Attention, inputs: Sequence[Tensor]) -> None:
    """Hides half of the blocks of a call's mask. inputs: those of the ops before the call and of the call, each once."""
    mask_values = [v for other in attention.before for v in other.results]
    read = dict.fromkeys(v for other in (*attention.before, op) for v in other.operands if v not in mask_values)
    hide_blocks(inputs[next(i for i, v in enumerate(read) if v == attention.mask)])


def hide_blocks(mask: Tensor) -> None:
    """Hides random square blocks, in place, in a bool or additive mask. Every query sees some keys."""
    queries, keys = (-(-n // _BLOCK) for n in mask.shape[-2:])
    seen = torch.rand(queries, keys, device=mask.device) < 0.5
    row = torch.arange(queries, device=mask.device)
    seen[row, row * keys // queries] = True
    whole = seen.repeat_interleave(_BLOCK, 0).repeat_interleave(_BLOCK, 1)[: mask.shape[-2], : mask.shape[-1]]
    mask.copy_(whole if mask.dtype is torch.bool else torch.where(whole, 0.0, -torch.inf))


def run_forward(op: ir.Operation, gradients: Gradients, inputs: Sequence[Tensor]) -> None:
    """Fills in the results of attention that its gradients read, by torch's reference of the op. inputs: the call's operands, each
    once."""
    attention = gradients.attention
    order = list(dict.fromkeys(op.operands))
    query, key, value, out, sums = (
        inputs[order.index(v)] for v in (attention.query, attention.key, attention.value, attention.result, gradients.sums)
    )
    mask, seed = (None if v is None else inputs[order.index(v)] for v in (attention.mask, attention.seed))
    if mask is not None:
        hide_blocks(mask)
    # One at a time, since the reference stores the weights; not where the random numbers depend on the place in the batch.
    whole = [slice(None)] if seed is not None else [slice(i, i + 1) for i in range(len(query))]
    for part in whole:
        here = mask if mask is None or len(mask) == 1 else mask[part]
        given = (
            query[part],
            key[part],
            value[part],
            here,
            seed,
            attention.dropout,
            attention.causal,
            attention.scale,
            attention.allowed,
        )
        out[part], sums[part] = torch.ops.lamina.attention.default(*given)

"""Inputs for tuning attention's gradients: results of a forward pass, as random numbers would not be consistent."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.passes.families.attention.backward import Gradients

Settle = Callable[[Sequence[Tensor]], None]


def forward_first(op: ir.Operation, gradients: Gradients, masks: Callable[[Tensor], None] = lambda mask: None) -> Settle:
    """Returns a function of inputs for the call `op`, each operand once, that fills in the results of attention. The library
    computes them, or torch's reference of the op with dropout. masks: fills in the mask first."""
    of = gradients.of
    order = list(dict.fromkeys(op.operands))
    query, key, value, out, sums = (order.index(v) for v in (of.query, of.key, of.value, of.result, gradients.sums))
    mask, seed = (None if v is None else order.index(v) for v in (of.mask, of.seed))
    namespace, name, overload = of.callee.split(".")
    routine = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    takes_mask = any(argument.name == "attn_bias" for argument in routine._schema.arguments)
    causal, scale, dropout = of.causal, of.scale, of.dropout

    def settle(inputs: Sequence[Tensor]) -> None:
        tensors = (inputs[query], inputs[key], inputs[value])
        masked = None if mask is None else inputs[mask]
        if masked is not None:
            masks(masked)
        if seed is not None:
            found = routine(*tensors, masked, inputs[seed], dropout, causal, scale)
        else:
            found = routine(*tensors, *((masked, True) if takes_mask else ()), 0.0, causal, scale=scale)
        inputs[out].copy_(found[0])
        inputs[sums].copy_(found[1])

    return settle

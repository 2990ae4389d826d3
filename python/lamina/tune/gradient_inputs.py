"""What attention's gradients are measured on: results of a forward pass, as random numbers would be none."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.passes.attention_backward import Gradients

Settle = Callable[[Sequence[Tensor]], None]


def forward_first(op: ir.Operation, gradients: Gradients) -> Settle:
    """What computes, of inputs for the call `op`, each operand once, those that are results of attention, by the library."""
    of = gradients.of
    order = list(dict.fromkeys(op.operands))
    query, key, value, out, sums = (order.index(v) for v in (of.query, of.key, of.value, of.result, gradients.sums))
    mask = None if of.mask is None else order.index(of.mask)
    namespace, name, overload = of.callee.split(".")
    routine = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    takes_mask = any(argument.name == "attn_bias" for argument in routine._schema.arguments)
    causal, scale = of.causal, of.scale

    def settle(inputs: Sequence[Tensor]) -> None:
        masked = (None if mask is None else inputs[mask], True) if takes_mask else ()
        found = routine(inputs[query], inputs[key], inputs[value], *masked, 0.0, causal, scale=scale)
        inputs[out].copy_(found[0])
        inputs[sums].copy_(found[1])

    return settle

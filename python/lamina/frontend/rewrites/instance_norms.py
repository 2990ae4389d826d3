"""Keeps the batch dimension of an instance norm. torch computes it as one batch norm over all images' channels, and the merged
dimension prevents a channels-last result, which a convolution after it prefers."""

import inspect

from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import set_original_aten_op
from torch.nn import functional as F

from ..decompositions.ops.norm import aten, instance_norm

_SIGNATURE = inspect.signature(F.instance_norm)


def open_instance_norms(gm: fx.GraphModule) -> None:
    """Replaces instance norms without running statistics, in a graph that Dynamo captured without gradients."""
    nodes = gm.graph.find_nodes(op="call_function", target=F.instance_norm)
    for node in nodes:
        bound = _SIGNATURE.bind(*node.args, **node.kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["running_mean"] is None and given["running_var"] is None and given["use_input_stats"]:
            node.target = _normalized
            node.args, node.kwargs = (given["input"], given["weight"], given["bias"], given["eps"]), {}
    if nodes:
        gm.recompile()


def _normalized(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    with set_original_aten_op(aten.instance_norm.default):
        result: Tensor = instance_norm(x, weight, bias, None, None, True, 0.0, eps, False)
        return result.contiguous()

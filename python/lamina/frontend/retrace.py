"""Decomposition of an exported graph that changes nothing in place, in one trace: torch.export's own way takes three times as long,
as it first finds out what is changed and then traces through layers that make copies of it."""

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx, set_original_aten_op
from torch.utils import _pytree as pytree

from .attention import ATTENTION, attend, is_on_gpu, kind_of_mask
from .decompositions import own, table
from .normalise import SETTLED

aten = torch.ops.aten

# These change their statistics when training, which their schemas do not say.
_NORMS = {aten.batch_norm.default: 5, aten.instance_norm.default: 5}


def decomposed(gm: fx.GraphModule) -> fx.GraphModule | None:
    """The graph decomposed by our table, with the same arguments and outputs; None where it is more than a function of tensors of
    fixed shapes: it changes something in place, has branches or checks.

    The new nodes know the lines and modules of the nodes that they came from.
    """
    arguments = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    fake = torch._guards.detect_fake_mode(arguments)
    if fake is None or not all(_is_plain(node) for node in gm.graph.nodes if node.op not in ("placeholder", "output")):
        return None
    with fake, enable_python_dispatcher(), traceback.preserve_node_meta():
        made = make_fx(_Run(gm).run, decomposition_table=table(), tracing_mode="real")(*arguments)
    return made if all(_is_functional(node) for node in made.graph.nodes) else None


class _Run(fx.Interpreter):
    """Composite ops, which torch's dispatcher takes apart before the trace sees them, are taken apart as torch.export does: by us
    where we know how, else by torch's Python or C++."""

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        return super().run_node(n)

    @property
    def graph_module(self) -> fx.GraphModule:
        assert isinstance(self.module, fx.GraphModule)
        return self.module

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in SETTLED:
            return None
        if target is ATTENTION and is_on_gpu(self.node):
            with set_original_aten_op(target):
                whole = attend(kind_of_mask(self.node, self.graph_module), args, kwargs)
            if whole is not None:
                return whole
        if not isinstance(target, torch._ops.OpOverload) or not _is_composite(target):
            return super().call_function(target, args, kwargs)
        if target not in own():
            return target.decompose(*args, **kwargs)
        with set_original_aten_op(target):
            return own()[target](*args, **kwargs)


def _is_composite(target: torch._ops.OpOverload) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in target.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key)


def _is_plain(node: fx.Node) -> bool:
    """Whether a node computes tensors of fixed shapes, and does nothing else."""
    if node.target in SETTLED:
        return True
    if node.target is not operator.getitem and not isinstance(node.target, torch._ops.OpOverload):
        return False
    values = pytree.tree_leaves(node.meta.get("val"))
    fixed = all(isinstance(v, Tensor) and not any(isinstance(n, torch.SymInt) for n in v.shape) for v in values)
    training = node.target in _NORMS and node.args[_NORMS[node.target]]
    return fixed and bool(values) and not training and _is_functional(node)


def _is_functional(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is None or (not schema.is_mutable and bool(schema.returns))

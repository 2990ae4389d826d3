"""Builds the decomposition table for AOTAutograd and torch.export.

torch's core ATen table is the base, for every op that is a plain composition of simpler ones. Lamina's decompositions replace it
where torch-mlir's lowering of an op is slow (variance in f64), inexact (0.797724 for sqrt(2/pi), half types computing in half) or
missing; others are torch's, from outside of that table. The library ops (GEMM, convolution, ...) are kept whole. Each of
Lamina's decompositions computes half types in f32 and returns the input's dtype.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from lamina.kernels.library import LIBRARY

from .dtypes import TYPES
from .eager_layout import as_eager, is_composed_by_torch
from .guard import with_guards
from .ops.embedding import EMBEDDINGS
from .ops.empty import EMPTY
from .ops.foreach import FOREACH
from .ops.images.adaptive_pool import ADAPTIVE_POOLS
from .ops.images.antialias import ANTIALIASED
from .ops.images.fractional_pool import FRACTIONAL_POOLS
from .ops.images.pool import POOLS
from .ops.images.resize import RESIZES
from .ops.images.sample import SAMPLES
from .ops.images.windows import WINDOWS
from .ops.index import INDEXING
from .ops.loss import LOSSES
from .ops.math.bessel import BESSEL
from .ops.math.bits import BITS
from .ops.math.elementary import ELEMENTARY
from .ops.math.error_functions import ERROR_FUNCTIONS
from .ops.math.gamma import GAMMA
from .ops.math.integer import INTEGERS
from .ops.math.normal import NORMAL
from .ops.norm import NORMS
from .ops.orders.order import ORDERS
from .ops.orders.search import SEARCHES
from .ops.pointwise import POINTWISE
from .ops.products import PRODUCTS
from .ops.quantize import QUANTIZATION
from .ops.random.distributions import DISTRIBUTIONS
from .ops.random.uniform import RANDOM
from .ops.reduce import REDUCTIONS
from .ops.scan import SCANS
from .ops.scatter import SCATTERS

aten = torch.ops.aten

Table = dict[Any, Callable[..., Any]]

# Ops that torch's table would decompose, and that Lamina's own kernels compute better whole, as the library's ops.
KEPT = (
    aten.sum.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.t.default,
    aten.rsub.Scalar,
    aten.detach.default,
    aten._unsafe_view.default,
)

# Ops whose decompositions by torch, some of them outside of its core table, serve for real tensors as they are: they give eager's
# dtypes, and no more kernels or operations than others would.
FROM_TORCH = tuple(
    attrgetter(name)(aten)
    for name in """
    gelu.default gelu_backward.default silu.default silu_backward.default softplus.default softplus_backward.default
    log_sigmoid_forward.default hardsigmoid.default hardswish.default elu.default leaky_relu.default
    tanh_backward.default sigmoid_backward.default
    _softmax.default _log_softmax.default _fused_rms_norm.default
    logsumexp.default linalg_vector_norm.default
    addcmul.default addcdiv.default floor_divide.default floor_divide.Scalar masked_fill.Scalar masked_fill.Tensor
    as_strided_copy.default narrow_copy.default permute_copy.default unbind_copy.int
    batch_norm_backward.default tril_indices.default triu_indices.default
    """.split()
)


@cache
def table() -> Table:
    """Returns the decompositions that every entry point uses, by overload."""
    base: Table = {op: fn for op, fn in core_aten_decompositions().items() if isinstance(op, torch._ops.OpOverload)}
    for op in [op for op in base if op in KEPT or str(op) in LIBRARY]:
        del base[op]
    laid_out = {op: fn if is_composed_by_torch(op) else as_eager(op, fn) for op, fn in base.items()}
    return laid_out | {op: with_guards(op, fn) for op, fn in own_decompositions().items()}


@cache
def own_decompositions() -> Table:
    """Returns the table's decompositions that Lamina wrote or chose."""
    found: Table = {op: decomposition_table[op] for op in FROM_TORCH}
    for part in (
        TYPES, EMPTY, POINTWISE, ELEMENTARY, BITS, GAMMA, ERROR_FUNCTIONS, BESSEL, INTEGERS, REDUCTIONS, PRODUCTS, NORMS, LOSSES,
        INDEXING, SCATTERS, SCANS, ORDERS, SAMPLES, POOLS, ADAPTIVE_POOLS, RESIZES, ANTIALIASED, WINDOWS, RANDOM, FOREACH,
        QUANTIZATION, SEARCHES, EMBEDDINGS, NORMAL, FRACTIONAL_POOLS, DISTRIBUTIONS,
    ):  # fmt: skip
        found |= part
    return {op: as_eager(op, fn) for op, fn in found.items()}

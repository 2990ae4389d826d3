"""Lists the aten overloads that lower to linalg; all others are external calls."""

import operator

import torch
from torch import Tensor, fx

from lamina.core.sizes import at_most
from lamina.kernels.library import LIBRARY

from .ops.check_op import CHECK
from .ops.kernel_op import KERNEL
from .ops.scan_op import SCAN
from .ops.sort_op import SORT
from .random_bits import BITS, is_seed
from .sizes import exact, exact_sizes

aten = torch.ops.aten

ARITHMETIC = ("add", "sub", "rsub", "mul", "div", "remainder", "fmod", "pow", "bitwise_and", "bitwise_or", "bitwise_xor")
PRIMS = {"prims.convert_element_type.default", "prims.iota.default", str(BITS), str(CHECK), str(SCAN), str(SORT)}
LOWERED = PRIMS | {
    f"aten.{name}"
    for name in """
    add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Scalar rsub.Tensor mul.Tensor mul.Scalar div.Tensor div.Scalar
    neg.default abs.default exp.default log.default tanh.default sigmoid.default erf.default sqrt.default rsqrt.default
    sin.default cos.default relu.default reciprocal.default pow.Tensor_Scalar pow.Tensor_Tensor
    maximum.default minimum.default where.self where.ScalarOther
    eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor ge.Scalar
    logical_and.default logical_or.default logical_not.default bitwise_and.Tensor bitwise_or.Tensor bitwise_not.default
    sum.dim_IntList sum.default mean.dim amax.default amin.default
    view.default _unsafe_view.default permute.default transpose.int t.default expand.default slice.Tensor select.int
    unsqueeze.default squeeze.dim squeeze.dims squeeze.default cat.default constant_pad_nd.default clone.default alias.default
    detach.default embedding.default gather.default arange.start_step arange.start arange.default full.default
    full_like.default zeros_like.default ones_like.default zeros.default ones.default scalar_tensor.default _to_copy.default
    log1p.default expm1.default floor.default ceil.default fmod.Tensor fmod.Scalar remainder.Tensor remainder.Scalar
    index.Tensor index_select.default isfinite.default flip.default repeat.default bitwise_xor.Tensor logical_xor.default
    bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar
    log2.default log10.default exp2.default tan.default atan.default atan2.default asin.default acos.default sinh.default
    cosh.default asinh.default acosh.default atanh.default div.Tensor_mode div.Scalar_mode round.default prod.default prod.dim_int
    diagonal.default view.dtype bitwise_left_shift.Tensor bitwise_right_shift.Tensor
    """.split()
}

COMPUTED = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
}  # fmt: skip
FLOAT8 = {torch.float8_e4m3fn, torch.float8_e5m2}
CARRIED = COMPUTED | FLOAT8 | {torch.uint64, torch.complex64, torch.complex128}
_WIDER = {torch.float16, torch.bfloat16, torch.float32}
_WORDS = ({torch.float32, torch.int32}, {torch.float64, torch.int64}, {torch.uint8, torch.int8})
CASTS = {"prims.convert_element_type.default", "aten._to_copy.default"}
MOVES = {
    f"aten.{name}"
    for name in """
    view.default _unsafe_view.default permute.default transpose.int t.default expand.default slice.Tensor select.int
    unsqueeze.default squeeze.dim squeeze.dims squeeze.default cat.default clone.default alias.default detach.default
    """.split()
}
"""Ops that move elements of any dtype."""

SAME_MEMORY = (aten.view_as_real.default, aten.view_as_complex.default)
"""Views of complex tensors as real ones and back, which are one tensor in a program."""

_PUT = (aten.index_put.default, aten._unsafe_index_put.default, aten.index_put_.default)
_COMBINES = (aten.scatter_add.default, aten.scatter_add_.default, aten.scatter_reduce.two, aten.scatter_reduce_.two)
_SCATTER = (aten.scatter.src, aten.scatter.value, aten.scatter_.src, aten.scatter_.value, *_COMBINES)
_IN_PLACE = (aten.index_put_.default, aten.scatter_.src, aten.scatter_.value, aten.scatter_add_.default, aten.scatter_reduce_.two)
_COMBINED = {torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64}
"""dtypes of elements that kernels combine with others."""
_SELECTS = (aten.where.self, aten.where.ScalarOther)
_INDICES = (torch.int64, torch.int32)


def reason(node: fx.Node) -> str | None:
    """Returns None for a node that lowers; "library", "kernel" (a user's) or "fallback" for one that is called; "scatter" for what
    lamina-scatter converts."""
    if node.target is operator.getitem or node.target in SAME_MEMORY:
        return None
    if node.target is KERNEL:
        return "kernel"
    name = str(node.target)
    if name in LIBRARY or is_seed(node):
        return "library"
    if is_scatter(node) and dtypes(node) <= COMPUTED:
        return "scatter"
    lowers = name in LOWERED and _computed(node, name) and not has_effect(node)
    fails = divides_integers(node) or _narrow_with_number(node) or _bytes_as_flags(node)
    return None if lowers and not fails else "fallback"


def _computed(node: fx.Node, name: str) -> bool:
    """Returns whether Lamina computes an op on its dtypes: 8-bit floats are only moved, and converted from and to wider ones."""
    types = dtypes(node)
    if node.target is aten.view.dtype:
        return types in _WORDS
    if types.isdisjoint(FLOAT8):
        return types <= COMPUTED
    if name in CASTS:
        return len(types & FLOAT8) == 1 and types - FLOAT8 <= _WIDER
    return name in MOVES and len(types) == 1


def _bytes_as_flags(node: fx.Node) -> bool:
    """Returns whether bytes select elements, in the place of truth values, as they did before torch had a dtype for these."""
    chosen = node.args[1] if node.target is aten.index.Tensor else node.args[:1] if node.target in _SELECTS else ()
    given = [arg.meta.get("val") for arg in chosen if isinstance(arg, fx.Node)]  # type: ignore[union-attr]
    return any(isinstance(value, Tensor) and value.dtype is torch.uint8 for value in given)


def is_scatter(node: fx.Node) -> bool:
    """Returns whether a call overwrites elements at indices of integers, or combines values with them. Where two indices name one
    element, either value may be in it afterwards, as in eager, and values are added to it in any order, unless torch is to be
    deterministic: on a CPU they always are in one order."""
    if node.target not in (*_PUT, *_SCATTER):
        return False
    into, *rest = node.args
    if node.target in _IN_PLACE and into.op != "placeholder" and not is_scatter(into):
        return False
    value = into.meta["val"]
    if torch.are_deterministic_algorithms_enabled() and not (_combines(node) and value.device.type == "cpu"):
        return False
    if not value.dim() or _is_empty(value) or (_combines(node) and value.dtype not in _COMBINED):
        return False
    return _puts(value, *rest) if node.target in _PUT else _scatters(value, *rest)


def _combines(node: fx.Node) -> bool:
    return node.target in _COMBINES or (node.target in _PUT and len(node.args) > 3 and bool(node.args[3]))


def _puts(into: Tensor, indices: list[fx.Node | None], values: fx.Node, _: bool = False) -> bool:
    given = [i.meta["val"] for i in indices if i is not None]
    fits = given and all(i.dtype in _INDICES and not _is_empty(i) for i in given)
    return bool(fits) and values.meta["val"].dtype == into.dtype


def _scatters(into: Tensor, dim: int, index: fx.Node, source: fx.Node | float, _: str = "") -> bool:
    indices = index.meta["val"]
    if indices.dtype not in _INDICES or not indices.dim() or _is_empty(indices):
        return False
    if not isinstance(source, fx.Node):
        return isinstance(source, int | float)
    values = source.meta["val"]
    return values.dtype == into.dtype and exact_sizes(values.shape) == exact_sizes(indices.shape)


def _is_empty(value: Tensor) -> bool:
    return any(isinstance(n, int) and n == 0 for n in exact_sizes(value.shape))


def _narrow_with_number(node: fx.Node) -> bool:
    """Returns whether 8- or 16-bit integers are combined with a number that no decomposition has turned into a tensor: torch-mlir's
    conversion of it ends the process."""
    if str(node.target).split(".")[1] not in ARITHMETIC:
        return False
    value = node.meta.get("val")
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.int8, torch.int16)
    return narrow and len(node.args) > 1 and isinstance(node.args[1], int | float)


def divides_integers(node: fx.Node) -> bool:
    """Returns whether an integer is divided by a tensor that may hold a zero: eager raises, the processor would end the process."""
    if str(node.target).rpartition(".")[0] not in ("aten.div", "aten.remainder", "aten.fmod") or len(node.args) < 2:
        return False
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype.is_floating_point or value.dtype.is_complex:
        return False
    divisor = node.args[1]
    return not _is_nonzero(divisor) if isinstance(divisor, fx.Node) else divisor == 0


def may_not_run(node: fx.Node) -> bool:
    """Returns whether a call of a branch may only run where the branch is taken: it does more than compute, or always fails."""
    return has_effect(node) or (divides_integers(node) and not isinstance(node.args[1], fx.Node))


def _is_nonzero(node: fx.Node) -> bool:
    """Returns whether integers are a number of 1 or more, such as a size, clamped to one, or replaced by one where they are 0."""
    if node.target is aten.maximum.default:
        return any(map(_is_nonzero, node.all_input_nodes))
    if node.target is aten.where.self and isinstance(test := node.args[0], fx.Node):
        compared = test.args[0] if test.target is CHECK else test
        is_apart = isinstance(compared, fx.Node) and compared.target is aten.ne.Scalar and compared.args == (node.args[1], 0)
        return is_apart and _is_nonzero(node.args[2])  # type: ignore[arg-type]
    if node.target is not aten.full.default or not isinstance(node.args[1], int | torch.SymInt):
        return False
    return at_most(1, exact(node.args[1]))


def copying(target: object) -> torch._ops.OpOverload | None:
    """Returns the variant of a view that copies; None if ATen has none."""
    if target is torch.ops.aten._unsafe_view.default:
        target = torch.ops.aten.view.default
    if not isinstance(target, torch._ops.OpOverload) or not target.is_view or target.namespace != "aten":
        return None
    variant = getattr(torch.ops.aten, f"{target._opname}_copy", None)
    found = variant is not None and target._overloadname in variant.overloads()
    return getattr(variant, target._overloadname) if found else None


def has_effect(node: fx.Node) -> bool:
    """Returns whether a call does more than compute its results: draw random numbers, check, print, write."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable or not target._schema.returns


def dtypes(node: fx.Node) -> set[torch.dtype]:
    """Returns the dtypes of a node's tensors: its arguments and its result."""
    values = [n.meta.get("val") for n in (*node.all_input_nodes, node)]
    return {v.dtype for v in values if isinstance(v, torch.Tensor)}

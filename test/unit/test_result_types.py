"""Tests that every decomposition in Lamina's table returns the dtypes and shapes of eager's op, whatever its arguments' dtypes."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import lamina
from lamina.frontend.decompositions.table import own_decompositions

aten = torch.ops.aten
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)
Call = tuple[tuple[Any, ...], dict[str, Any]]


def x(*shape: int) -> Tensor:
    return torch.rand(shape) + 0.5


def index(*values: int) -> Tensor:
    return torch.tensor(values)


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def resizing(dims: int) -> Iterator[tuple[Any, list[Call]]]:
    """Calls of all overloads of interpolation of so many dimensions, and of their gradients."""
    image, large, sizes = x(2, 4, *[4] * dims), x(2, 4, *[8] * dims), [8] * dims
    smooth = ([], ["linear"], ["bilinear", "bicubic"], ["trilinear"])[dims]
    names = [("upsample_nearest", []), ("_upsample_nearest_exact", []), *((f"upsample_{name}", [True]) for name in smooth)]
    antialiased = [(f"_upsample_{name}2d_aa", [True]) for name in smooth if dims == 2]
    for name, more in [*((f"{name}{dims}d", more) for name, more in names), *antialiased]:
        yield getattr(aten, name).default, [call(image, sizes, *more)]
        yield getattr(aten, name).vec, [call(image, None, *more, [2.0] * dims), call(image, sizes, *more, None)]
        yield getattr(aten, f"{name}_backward").default, [call(large, sizes, list(image.shape), *more)]


PLANE, ROW = x(2, 4, 4, 4), x(2, 3)
C = x(4)
PLACES = torch.tensor([[0, 2, 0], [1, 1, 0]])
BAGS = torch.tensor([3, 0, 2])
CALLS: dict[Any, list[Call]] = {
    aten._adaptive_avg_pool2d.default: [call(PLANE, [2, 2])],
    aten._cdist_forward.default: [call(x(2, 4, 3), x(2, 5, 3), p, None) for p in (1.0, 2.0, 3.0)],
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: [
        call(ROW, x(1), torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int64), -128, 127)
    ],
    aten.fake_quantize_per_channel_affine_cachemask.default: [call(ROW, x(3), torch.zeros(3, dtype=torch.int32), 1, -128, 127)],
    aten._adaptive_avg_pool3d.default: [call(PLANE[:, None], [2, 2, 2])],
    aten._adaptive_avg_pool3d_backward.default: [call(PLANE[:, None, :2, :2, :2], PLANE[:, None])],
    aten.adaptive_max_pool2d.default: [call(PLANE, [2, 2])],
    aten.adaptive_max_pool2d_backward.default: [call(PLANE[..., :2, :2], PLANE, aten.adaptive_max_pool2d(PLANE, [2, 2])[1])],
    aten.adaptive_max_pool3d.default: [call(PLANE[:, None], [2, 2, 2])],
    aten.adaptive_max_pool3d_backward.default: [
        call(PLANE[:, None, :2, :2, :2], PLANE[:, None], aten.adaptive_max_pool3d(PLANE[:, None], [2, 2, 2])[1])
    ],
    aten._embedding_bag.default: [call(x(5, 3), index(0, 2, 4, 1), index(0, 2), False, mode) for mode in (0, 1, 2)],
    aten._embedding_bag_forward_only.default: [call(x(5, 3), index(0, 2, 4, 1), index(0, 2), False, mode) for mode in (0, 1, 2)],
    aten._embedding_bag_per_sample_weights_backward.default: [
        call(x(2, 3), x(5, 3), index(0, 2, 4, 1), index(0, 2), index(0, 0, 1, 1), 0)
    ],
    aten.bucketize.Scalar: [call(0.3, torch.arange(5.0)), call(2, index(0, 1, 3))],
    aten.searchsorted.Scalar: [call(torch.arange(5.0), 0.3), call(index(0, 1, 3), 2)],
    aten.fractional_max_pool2d.default: [call(PLANE, [2, 2], [2, 2], torch.full((*PLANE.shape[:2], 2), 0.3))],
    aten.fractional_max_pool2d_backward.default: [
        call(PLANE[..., :2, :2], PLANE, [2, 2], [2, 2], torch.zeros(*PLANE.shape[:2], 2, 2, dtype=torch.int64))
    ],
    aten.fractional_max_pool3d.default: [call(PLANE[None], [1, 2, 2], [1, 2, 2], torch.full((1, PLANE.shape[0], 3), 0.3))],
    aten.fractional_max_pool3d_backward.default: [
        call(
            PLANE[None, :, :1, :2, :2],
            PLANE[None],
            [1, 2, 2],
            [1, 2, 2],
            torch.zeros(1, PLANE.shape[0], 1, 2, 2, dtype=torch.int64),
        )
    ],
    aten.bmm.default: [call(x(2, 3, 4), x(2, 4, 1)), call(x(2, 3, 1), x(2, 1, 4))],
    aten.addbmm.default: [call(x(2, 4), x(3, 2, 5), x(3, 5, 4))],
    aten.addmv.default: [call(x(2), ROW, x(3))],
    aten._adaptive_avg_pool2d_backward.default: [call(PLANE[..., :2, :2], PLANE)],
    aten.avg_pool2d_backward.default: [call(PLANE[..., ::2, ::2], PLANE, [2, 2], [2, 2], [0, 0], False, True, None)],
    aten.avg_pool3d_backward.default: [
        call(PLANE[:, None, :, ::2, ::2], PLANE[:, None], [1, 2, 2], [1, 2, 2], [0, 0, 0], False, True, None)
    ],
    aten.instance_norm.default: [call(PLANE, C, C, None, None, True, 0.1, 1e-5, False)],
    aten.max_pool2d_with_indices_backward.default: [
        call(PLANE[..., ::2, ::2], PLANE, [2, 2], [2, 2], [0, 0], [1, 1], False, aten.max_pool2d_with_indices(PLANE, 2)[1])
    ],
    aten.max_pool3d_with_indices_backward.default: [
        call(PLANE, PLANE, [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1], False, aten.max_pool3d_with_indices(PLANE, 1)[1])
    ],
    aten.batch_norm_backward.default: [
        call(PLANE, PLANE, C, C, C, C, C, True, 1e-5, [True] * 3, torch.zeros(1, dtype=torch.uint8))
    ],
    aten.bucketize.Tensor: [call(ROW, x(3).sort().values)],
    aten.repeat_interleave.Tensor: [call(i, output_size=6) for i in (index(1, 0, 5), index(4, 2).int())],
    aten.diagonal_scatter.default: [call(x(3, 3), x(3))],
    aten.permute_copy.default: [call(ROW, [1, 0])],
    aten.view_copy.default: [call(ROW, [3, 2])],
    aten.as_strided_scatter.default: [call(x(12), x(2, 3), [2, 3], [6, 1], 1)],
    aten._fused_rms_norm.default: [call(ROW, [3], x(3), 1e-5), call(ROW, [3], None, None)],
    aten._weight_norm_interface.default: [call(ROW, x(2, 1)), call(ROW, x(1, 3), 1)],
    aten._weight_norm_interface_backward.default: [
        call(ROW, ROW, x(2, 1), x(2, 1).exp(), 0),
        call(ROW, ROW, x(1, 3), x(1, 3).exp(), 1),
    ],
    aten._log_softmax.default: [call(ROW, 1, False)],
    aten._batch_norm_with_update_functional.default: [call(PLANE, C, C, C, C, 0.1, 1e-5)],
    **{
        op: [call(ROW, ROW, 1, d) for d in (torch.float32, torch.bfloat16)]
        for op in (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
    },
    aten.as_strided_copy.default: [call(x(12), [2, 3], [6, 1], 1)],
    aten.index_add.default: [call(ROW, 0, torch.tensor(1), x(1, 3)), call(ROW, 0, index(1, 0), ROW, alpha=2)],
    aten.index_put.default: [call(ROW, [index(1, 0)], ROW, True), call(ROW, [index(1)], x(1, 3))],
    aten.index_reduce.default: [
        call(ROW, 0, index(1, 0), ROW, name, include_self=own) for name in ("mean", "amax") for own in (True, False)
    ],
    aten.scatter.reduce: [call(ROW, 1, PLACES, ROW, reduce=name) for name in ("add", "multiply")],
    aten.scatter.value_reduce: [call(ROW, 1, PLACES, 2.5, reduce=name) for name in ("add", "multiply")],
    aten.scatter_reduce.two: [
        call(ROW, 1, PLACES, ROW, name, include_self=own)
        for name in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
    aten.index_copy.default: [call(ROW, 0, torch.tensor(1), x(1, 3)), call(ROW, 0, index(1, 0), ROW)],
    aten.take.default: [call(ROW, torch.tensor(1)), call(ROW, index(1, 5))],
    aten._native_batch_norm_legit.no_stats: [call(PLANE, C, C, True, 0.1, 1e-5)],
    aten._native_batch_norm_legit_functional.default: [call(PLANE, C, C, C, C, t, 0.1, 1e-5) for t in (True, False)],
    aten._native_batch_norm_legit_no_training.default: [call(PLANE, C, C, C, C, 0.1, 1e-5)],
    aten._softmax.default: [call(ROW, 1, False)],
    aten._to_copy.default: [call(ROW, dtype=d) for d in (None, torch.bfloat16, torch.int32)],
    aten.addmm.default: [call(x(3), ROW, x(3, 3))],
    aten.addr.default: [call(x(2, 3), x(2), x(3))],
    aten.addcdiv.default: [call(ROW, ROW, ROW), call(ROW, ROW, ROW, value=2.5)],
    aten.addcmul.default: [call(ROW, ROW, ROW), call(ROW, ROW, ROW, value=2.5), call(ROW, ROW, ROW, value=2)],
    aten.avg_pool2d.default: [call(PLANE, [2, 2])],
    aten.avg_pool3d.default: [call(PLANE, [2, 2, 2])],
    aten.bernoulli.default: [call(ROW - 0.5)],
    aten.randint.low: [call(1, 5, [3]), call(1, 5, [3], dtype=torch.float32)],
    aten.randint_like.low_dtype: [call(ROW, 1, 5)],
    aten.block_diag.default: [call([ROW, ROW])],
    aten.clamp.Tensor: [call(ROW, ROW, ROW), call(ROW, None, ROW)],
    aten.clamp.default: [call(ROW, 0, 1), call(ROW, 0.5), call(ROW, None, 2)],
    aten.constant_pad_nd.default: [call(ROW, [1, 1], 2), call(ROW, [-1, 1], 0.5)],
    aten.convolution_backward.default: [
        call(x(2, 5, 3, 3), PLANE, x(5, 4, 2, 2), [5], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    ],
    aten.convolution.default: [call(PLANE, x(3, 4, 2, 2), x(3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)],
    aten.cumsum.default: [call(ROW, 1), call(ROW, 1, dtype=torch.float64)],
    aten.div.Scalar_mode: [call(ROW, n, rounding_mode=m) for n in (2, 2.5) for m in (None, "trunc", "floor")],
    aten.div.Tensor_mode: [call(ROW, ROW, rounding_mode=m) for m in (None, "trunc", "floor")],
    aten.dropout.default: [call(ROW, 0.5, True), call(ROW, 0.5, False)],
    aten.empty_permuted.default: [call([2, 3], [1, 0])],
    aten.empty_strided.default: [call([2, 3], [3, 1])],
    aten.eye.m: [call(2, 3)],
    aten.full.default: [call([2], 1), call([2], 1.5), call([2], True)],
    aten.gelu_backward.default: [call(ROW, ROW), call(ROW, ROW, approximate="tanh")],
    aten.hardtanh_backward.default: [call(ROW, ROW, -1, 1)],
    aten.index_fill.int_Tensor: [call(ROW, 1, index(0, 2), torch.tensor(1.5))],
    aten.linalg_vector_norm.default: [call(ROW, o) for o in (0, 1, 2, 3, float("inf"))] + [call(ROW, 2, dtype=torch.float64)],
    aten.lerp.Scalar: [call(ROW, ROW, 0.3)],
    aten.logsumexp.default: [call(ROW, [1])],
    aten.max_pool2d_with_indices.default: [call(PLANE, [2, 2])],
    aten.max_pool3d_with_indices.default: [call(PLANE, [2, 2, 2])],
    aten.mean.dim: [call(ROW, [1]), call(ROW, [1], dtype=torch.float64)],
    aten.mm.default: [call(ROW, x(3, 2))],
    aten.mse_loss_backward.default: [call(x(2, 3), ROW, ROW, 0)],
    aten.native_batch_norm.default: [call(PLANE, C, C, C, C, False, 0.1, 1e-5), call(PLANE, C, C, None, None, True, 0.1, 1e-5)],
    aten.native_dropout.default: [call(ROW, 0.5, True), call(ROW, 0.0, True), call(ROW, 0.5, False)],
    aten.native_dropout_backward.default: [call(ROW, ROW > 0.7, 2.0)],
    aten.native_group_norm.default: [call(PLANE, C, C, 2, 4, 16, 2, 1e-5)],
    aten.native_layer_norm.default: [call(ROW, [3], x(3), x(3), 1e-5), call(ROW, [3], None, None, 1e-5)],
    aten.new_empty_strided.default: [call(ROW, [2, 3], [3, 1])],
    aten.nll_loss_forward.default: [call(ROW, index(0, 2), w, r, -100) for w in (None, x(3)) for r in (0, 1, 2)],
    aten.nll_loss2d_forward.default: [call(PLANE, torch.ones(2, 4, 4, dtype=torch.int64), C, 1, -100)],
    aten.nll_loss_backward.default: [call(x(2), ROW, index(0, 2), None, 0, -100, x())],
    aten.nll_loss2d_backward.default: [call(x(), PLANE, torch.ones(2, 4, 4, dtype=torch.int64), None, 1, -100, x())],
    aten.pow.Scalar: [call(2, ROW), call(2.5, ROW)],
    aten.pow.Tensor_Scalar: [call(ROW, 2), call(ROW, 2.5)],
    aten.unfold_backward.default: [call(x(3, 5, 4), [3, 12], 1, 4, 2)],
    aten.col2im.default: [call(x(2, 12, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1])],
    aten.replication_pad1d_backward.default: [call(x(2, 5), ROW, [1, 1])],
    aten.replication_pad2d_backward.default: [call(x(2, 4, 6, 6), PLANE, [1, 1, 1, 1])],
    aten.replication_pad3d_backward.default: [call(x(2, 6, 6, 6), x(2, 4, 4, 4), [1] * 6)],
    aten.reflection_pad1d_backward.default: [call(x(2, 5), ROW, [1, 1])],
    aten.reflection_pad2d_backward.default: [call(x(2, 4, 6, 6), PLANE, [1, 1, 1, 1])],
    aten.reflection_pad3d_backward.default: [call(x(2, 6, 6, 6), x(2, 4, 4, 4), [1] * 6)],
    aten.rms_norm.default: [call(ROW, [3], x(3), 1e-5)],
    aten.roll.default: [call(ROW, [1], [1])],
    aten.scalar_tensor.default: [call(1), call(1.5, dtype=torch.float64)],
    aten.select_backward.default: [call(x(2), [2, 3], 1, 0)],
    aten.select_scatter.default: [call(ROW, x(2), 1, 0)],
    aten.slice_backward.default: [call(x(2, 2), [2, 3], 1, 0, 2, 1)],
    aten.slice_scatter.default: [call(ROW, x(2, 2), 1, 0, 2), call(ROW, ROW, 1, 0, 3)],
    aten.smooth_l1_loss_backward.default: [call(ROW, ROW, ROW, 0, 1.0)],
    aten.soft_margin_loss_backward.default: [call(ROW, ROW, ROW, 0)],
    aten.split_with_sizes.default: [call(ROW, [1, 2], 1)],
    aten.softplus_backward.default: [call(ROW, ROW, 1.0, 20.0)],
    aten.squeeze.dims: [call(x(2, 1, 3), [1])],
    aten.sum.dim_IntList: [call(ROW, [1]), call(ROW, [1], dtype=torch.float64)],
    aten.threshold_backward.default: [call(ROW, ROW, 0), call(ROW, ROW, 0.7)],
    aten.index.Tensor: [call(ROW, [None, torch.tensor([1, 0])]), call(ROW, [None, torch.tensor([1, 0], dtype=torch.int32)])],
    aten.grid_sampler_2d.default: [call(x(2, 3, 4, 5), x(2, 3, 3, 2), mode, 0, True) for mode in (0, 1, 2)],
    aten.grid_sampler_3d.default: [call(x(2, 3, 4, 5, 2), x(2, 3, 3, 2, 3), 0, 0, True)],
    aten.grid_sampler_2d_backward.default: [
        call(x(2, 3, 3, 3), x(2, 3, 4, 5), x(2, 3, 3, 2), mode, 0, True, [True, True]) for mode in (0, 1)
    ],
    aten.grid_sampler_3d_backward.default: [call(x(2, 3, 3, 3, 2), x(2, 3, 4, 5, 2), x(2, 3, 3, 2, 3), 0, 0, True, [True, True])],
    aten.masked_scatter_backward.default: [call(ROW, ROW > 0, list(ROW.shape))],
    aten.sort.stable: [call(ROW, stable=True, dim=1)],
    aten.histc.default: [call(ROW, 4, -1, 1), call(ROW, 4)],
    aten.multilabel_margin_loss_backward.default: [call(x(), x(2, 3), torch.tensor([[1, -1, 0]] * 2), 1, (x(2, 3) > 0).float())],
    aten._embedding_bag_backward.default: [
        call(
            x(2, 3),
            BAGS,
            torch.tensor([0, 1]),
            torch.tensor([0, 1, 1]),
            torch.tensor([1, 2]),
            BAGS[:2] if mode < 2 else BAGS.repeat(2, 1),
            4,
            False,
            mode,
            False,
            None,
        )
        for mode in (0, 1, 2)
    ],
    **dict(item for dims in (1, 2, 3) for item in resizing(dims)),
}
"""Calls of ops whose arguments their schema does not tell."""


def from_schema(op: Any) -> list[Call]:
    """Calls with a tensor, 2, or a list of these wherever the schema wants one."""
    calls = []
    for number in (2, 2.5):
        values: dict[str, Any] = {
            "Tensor": ROW,
            "number": number,
            "float": 0.5,
            "int": 1,
            "bool": False,
            "List[Tensor]": [ROW, ROW],
            "List[number]": [number, number],
            "List[int]": [1],
            "Optional[List[int]]": [1],
        }
        needed = [a for a in op._schema.arguments if not a.has_default_value()]
        if all(str(a.type) in values for a in needed):
            args = tuple(values[str(a.type)] for a in needed if not a.kwarg_only)
            calls.append((args, {a.name: values[str(a.type)] for a in needed if a.kwarg_only}))
    return calls


def mixed(given: Call) -> Iterator[Call]:
    """The call with its floating arguments in every type, and with each single argument in another type or without dimensions."""
    leaves, spec = pytree.tree_flatten(given)
    at = [i for i, v in enumerate(leaves) if isinstance(v, Tensor)]
    floats = [i for i in at if leaves[i].is_floating_point()]
    for dtype in DTYPES:
        same = [v.to(dtype) if i in floats else v for i, v in enumerate(leaves)]
        yield pytree.tree_unflatten(same, spec)
        for i, other, flat in itertools.product(at if len(at) > 1 else (), DTYPES, (False, True)):
            value = same[i].to(other)
            if flat and not value.dim():
                continue
            yield pytree.tree_unflatten([*same[:i], value.flatten()[0] if flat else value, *same[i + 1 :]], spec)


def described(result: Any) -> list[Any]:
    return [(v.dtype, tuple(v.shape)) if isinstance(v, Tensor) else type(v) for v in pytree.tree_leaves(result)]


def outcome(op: Any, given: Call) -> Any:
    args, kwargs = given
    try:
        result = op(*args, **kwargs)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
        return error
    return result if result is NotImplemented else described(result)


ON_GPUS = (aten.cudnn_grid_sampler.default, aten.cudnn_grid_sampler_backward.default)
"""Ops that no CPU computes."""
BAGGED = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
"""Ops whose first result alone callers see; the others are for their gradients, and eager's shapes depend on its way to compute them."""


@pytest.mark.parametrize("op", sorted(own_decompositions().keys() - ON_GPUS, key=str), ids=str)
def test_types_are_those_of_eager(op: Any) -> None:
    found = [(given, wanted) for start in CALLS.get(op) or from_schema(op) for given in mixed(start) if
             isinstance(wanted := outcome(op, given), list)]  # fmt: skip
    assert found, "no call of this op runs in eager: give it one in CALLS"
    wrong, seen = [], slice(1 if op in BAGGED else None)
    for given, wanted in found:
        got = outcome(own_decompositions()[op], given)
        if isinstance(got, list) and got[seen] != wanted[seen]:
            wrong.append((pytree.tree_map_only(Tensor, lambda t: (t.dtype, tuple(t.shape)), given), got, wanted))
    assert not wrong, f"{len(wrong)} of {len(found)}: {wrong[:3]}"


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.float64])
def test_threshold_backward_of_mixed_types(dtype: torch.dtype) -> None:
    grad, x = torch.arange(-3, 4).to(dtype), torch.randn(7)
    compiled = lamina.compile(lambda g, x: aten.threshold_backward.default(g, x, 0.0), (grad, x))
    torch.testing.assert_close(compiled(grad, x), aten.threshold_backward.default(grad, x, 0.0), rtol=0, atol=0)

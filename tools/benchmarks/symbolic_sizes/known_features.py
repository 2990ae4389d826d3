"""Small graphs of which only the batch and the length, or the height and width, are symbolic, as in most networks: features,
channels, classes and vocabularies are known."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from lamina.tools.benchmarks.symbolic_sizes.kernel_class import Arguments, KernelClass

MOST = 1 << 24  # elements of a tensor
Shapes = Callable[[int, int], Arguments]
SEQUENCE, IMAGE = (2,), (1,)
"""The dimensions of a sequence's or an image's tensor that are known."""


def _sequence(features: int, dtype: torch.dtype = torch.float32) -> Shapes:
    def shapes(m: int, n: int) -> Arguments:
        batch = min(m, 64)
        return (torch.randn(batch, max(min(n, MOST // (batch * features)), 2), features).to(dtype),)

    return shapes


def _image(channels: int, dtype: torch.dtype = torch.float32) -> Shapes:
    def shapes(m: int, n: int) -> Arguments:
        batch = min(m, 64)
        side = max(min(int(n**0.5), int((MOST // (batch * channels)) ** 0.5)), 3)
        return (torch.randn(batch, channels, side, side + 2).to(dtype),)

    return shapes


def _with(shapes: Shapes, *sizes: int) -> Shapes:
    """Returns arguments with vectors of known sizes behind them, in the type of the first."""
    return lambda m, n: (*(given := shapes(m, n)), *(torch.randn(size, dtype=given[0].dtype) for size in sizes))


def _rows(classes: int, dtype: torch.dtype = torch.float32) -> Shapes:
    return lambda m, n: _sequence(classes, dtype)(m, n)[0].flatten(0, 1).split(min(m * n, MOST // classes))[:1]


def _classified(classes: int, dtype: torch.dtype = torch.float32) -> Shapes:
    return lambda m, n: (*(rows := _rows(classes, dtype)(m, n)), torch.randint(classes, rows[0].shape[:1]))


def _masked_mean(x: Tensor, lengths: Tensor) -> Tensor:
    mask = (torch.arange(x.shape[1], device=x.device) < lengths[:, None]).unsqueeze(-1)
    return (x * mask).sum(1) / mask.sum(1)


def _lengths(m: int, n: int) -> Arguments:
    (x,) = _sequence(768)(m, n)
    return x, torch.randint(1, x.shape[1] + 1, x.shape[:1])


def _standardized(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


BF16 = torch.bfloat16
KNOWN_FEATURES: Mapping[str, KernelClass] = {
    "bias and GELU of 3072 features, bf16": KernelClass(
        lambda x, b: F.gelu(x + b), _with(_sequence(3072, BF16), 3072), known=(SEQUENCE, (0,))
    ),
    "bias and GELU of 3072 features, trained, bf16": KernelClass(
        lambda x, b: F.gelu(x + b), _with(_sequence(3072, BF16), 3072), trains=True, known=(SEQUENCE, (0,))
    ),
    "layer norm of 768 features, trained, bf16": KernelClass(
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        _with(_sequence(768, BF16), 768, 768),
        trains=True,
        known=(SEQUENCE, (0,), (0,)),
    ),
    "gradient of a bias, bf16": KernelClass(lambda x: x.sum((0, 1)), _sequence(768, BF16), known=(SEQUENCE,)),
    "mean over the length, f32": KernelClass(lambda x: x.mean(1), _sequence(768), known=(SEQUENCE,)),
    "mean over part of the length, f32": KernelClass(_masked_mean, _lengths, known=(SEQUENCE, ())),
    "maximum over the length, f32": KernelClass(lambda x: x.amax(1), _sequence(256), known=(SEQUENCE,)),
    "standardized over the length, f32": KernelClass(_standardized, _sequence(321), known=(SEQUENCE,)),
    "running sums over the length, f32": KernelClass(lambda x: x.cumsum(1), _sequence(64), known=(SEQUENCE,)),
    "windows of the length, f32": KernelClass(
        lambda x: x.unfold(1, 16, 8).mean(-1), lambda m, n: _sequence(64)(m, n + 16), known=(SEQUENCE,)
    ),
    "cross-entropy of 1000 classes, trained, f32": KernelClass(
        F.cross_entropy, _classified(1000), trains=True, known=((1,), ())
    ),
    "cross-entropy of 50257 classes, trained, bf16": KernelClass(
        F.cross_entropy, _classified(50257, BF16), trains=True, known=((1,), ())
    ),
    "divergence of 1000 classes, f32": KernelClass(
        lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
        lambda m, n: (*_rows(1000)(m, n), *_rows(1000)(m, n)), known=((1,), (1,)),
    ),
    "two of eight experts, f32": KernelClass(lambda x: x.softmax(-1).topk(2, -1), _sequence(8), known=(SEQUENCE,)),
    "sorted rows of 100, f32": KernelClass(lambda x: x.sort(-1)[0], _rows(100), known=((1,),)),
    "channel sums of images, f32": KernelClass(lambda x: x.sum((0, 2, 3)), _image(64), known=(IMAGE,)),
    "batch norm of 64 channels, trained, f32": KernelClass(
        _batch_norm, _with(_image(64), 64, 64), trains=True, known=(IMAGE, (0,), (0,))
    ),
    "group norm of 64 channels, trained, bf16": KernelClass(
        lambda x, w, b: F.group_norm(x, 8, w, b), _with(_image(64, BF16), 64, 64), trains=True, known=(IMAGE, (0,), (0,))
    ),
    "max pooling of 64 channels, trained, f32": KernelClass(
        lambda x: F.max_pool2d(x, 3, 2, 1), _image(64), trains=True, known=(IMAGE,)
    ),
    "reflection padding, f32": KernelClass(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect") * 2, _image(64), known=(IMAGE,)),
    "pixel shuffle, f32": KernelClass(lambda x: F.pixel_shuffle(x, 2) + 1, _image(64), known=(IMAGE,)),
    "norm of channels last, f32": KernelClass(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (64,)), _image(64), known=(IMAGE,)),
}  # fmt: skip

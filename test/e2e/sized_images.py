"""Graphs of images for sweeps over sizes: convolutions, pools, interpolation, windows and groups of channels."""

import math
from typing import Any

import torch
from sized_graphs import Sized, x
from torch import Tensor, nn

F = torch.nn.functional
PARITIES = 4 if torch.__version__ < "2.12" else 1
"""torch 2.11 asks whether the height and the width of a pool's image are even."""


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, a: Tensor) -> Tensor:
        a = F.max_pool2d(self.norm(self.convolution(a)).relu(), 2)
        return self.head(a.mean((2, 3))).log_softmax(-1)


def images(b: int, _: int) -> tuple[Any, ...]:
    return (x(b, 3, 12, 14),)


def areas(b: int, n: int) -> tuple[Any, ...]:
    """Returns images of any size, none smaller than the window."""
    return (x(2, 3, b + 9, n + 9),)


def pairs(b: int, n: int) -> tuple[Any, ...]:
    """Returns two images of different sizes."""
    return x(2, 3, b + 3, n + 9), x(2, 3, b + 9, n + 20)


torch.manual_seed(1)
CONV, POINTWISE, DEPTHWISE = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 50, 1), nn.Conv2d(3, 3, 3, padding=1, groups=3)
PIXELS, POSITIONS = nn.Embedding(3 * 12, 14), nn.Embedding(4 * 5, 6)
IMAGE_WEIGHTS = nn.ModuleList([CONV, POINTWISE, DEPTHWISE, PIXELS, POSITIONS]).requires_grad_(False)
"""The modules of the graphs below; tests on a GPU move them there first."""


def windows(a: Tensor) -> Tensor:
    """Computes weights among the pixels of each window of 4 by 4."""
    b, h, w, c = a.shape
    return a.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c).softmax(1)


def convolutions(a: Tensor) -> Tensor:
    return F.conv2d(F.conv2d(a, CONV.weight.to(a.dtype)).relu(), POINTWISE.weight.to(a.dtype)).tanh()


def group_norm_of_a_convolution(a: Tensor) -> Tensor:
    """Normalizes a convolution's result, which the sizes do not show to have any rows."""
    y = F.conv2d(a, CONV.weight.to(a.dtype), stride=2)
    return F.group_norm(y, 1) + y


def depthwise(a: Tensor) -> Tensor:
    return F.hardswish(F.conv2d(a, DEPTHWISE.weight.to(a.dtype), padding=1, groups=3)) + a


def images_norm(a: Tensor) -> Tensor:
    return F.relu(F.batch_norm(F.conv2d(a, CONV.weight.to(a.dtype)), None, None, training=True))


def skipped_connection(a: Tensor) -> Tensor:
    """Pads what was made smaller and larger again to the image's size, as in a U-Net."""
    up = F.interpolate(F.max_pool2d(a, 2), scale_factor=2.0)
    rows, columns = a.shape[2] - up.shape[2], a.shape[3] - up.shape[3]
    return a * F.pad(up, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))


def resized_positions(a: Tensor) -> Tensor:
    """Adds an embedding of each position, which is resized to the image."""
    learned = POSITIONS.weight.to(a.dtype).view(1, 4, 5, 6)
    return F.conv2d(a, CONV.weight.to(a.dtype)) + F.interpolate(learned, size=(a.shape[2] - 2, a.shape[3] - 2), mode="bicubic")


def squares(b: int, n: int) -> tuple[Any, ...]:
    """Returns the pixels of square images."""
    return (x(b, (n % 30 + 3) ** 2, 5),)


def image_of_rows(a: Tensor) -> Tensor:
    side = int(a.shape[1] ** 0.5)
    return a.view(a.shape[0], side, side, a.shape[2]).permute(0, 3, 1, 2).softmax(2)


def image_of_patches(a: Tensor) -> Tensor:
    rows = F.conv2d(a, CONV.weight.to(a.dtype), stride=2).flatten(2).transpose(1, 2)
    side = int(math.sqrt(rows.shape[1]))
    return rows.reshape(a.shape[0], side, side, -1).sum(1) * 2


def resized_convolution(a: Tensor) -> Tensor:
    """Concatenates features of the whole image to those of each pixel, as pyramids of pools do."""
    y = F.conv2d(a, CONV.weight.to(a.dtype), stride=2)
    whole = F.conv2d(F.adaptive_avg_pool2d(y, 1), POINTWISE.weight.to(a.dtype)[:4])
    return torch.cat([y, F.interpolate(whole, y.shape[2:], mode="bilinear")], 1)


def resized_rows(a: Tensor, image: Tensor) -> Tensor:
    """Makes an image with channels last from rows of pixels, and resizes it."""
    pixels = a.view(a.shape[0], -1, 15, 6).permute(0, 3, 1, 2) * 2
    return F.interpolate(pixels, image.shape[2:], mode="bilinear")


def weight_for_each_image(a: Tensor, style: Tensor, channels: int = 4) -> Tensor:
    """Convolves each image with its own weight, by a grouped convolution."""
    b, c, h, w = a.shape
    weight = CONV.weight.to(a.dtype) * style[:, None, :, None, None]
    return (
        F.conv2d(a.reshape(1, b * c, h, w), weight.reshape(-1, c, 3, 3), padding=1, groups=b).view(b, channels, h, w)
        + CONV.bias.to(a.dtype)[:, None, None]
    )


IMAGES: dict[str, Sized] = {
    # torch itself guards whether a batch has 16 images, from which on oneDNN computes
    "weight_for_each_image": Sized(weight_for_each_image, lambda b, n: (x(b, 3, n + 9, 20), x(b, 3)), compiled=2),
    "train_weight_for_each_image": Sized(
        lambda a, style: weight_for_each_image(a, style, -1), lambda b, n: (x(b, 3, n + 9, 20), x(b, 3)), train=True, compiled=4
    ),
    "image_of_rows": Sized(image_of_rows, squares),
    "train_image_of_rows": Sized(image_of_rows, squares, train=True),
    "image_behind_a_token": Sized(lambda a: image_of_rows(a[:, 1:]), lambda b, n: (x(b, (n % 30 + 3) ** 2 + 1, 5),)),
    "image_of_patches": Sized(image_of_patches, lambda b, n: (x(b, 3, 9 + n % 30, 9 + n % 30),)),
    # a guard sets the quotients of the image's sizes equal to those of the embedding of positions
    "view_patches": Sized(
        lambda a: (
            (F.conv2d(a, CONV.weight.to(a.dtype), stride=4) + POSITIONS.weight.to(a.dtype).view(1, 4, 5, 6))
            .flatten(2)
            .view(a.shape[0], 2, -1, a.shape[2] // 4 * (a.shape[3] // 4))
            .sum(1)
        ),
        lambda b, n: (x(b, 3, 20 + n % 3, 24 + b % 3),),
    ),
    "group_norm_of_a_convolution": Sized(group_norm_of_a_convolution, lambda b, n: (x(b, 3, 9 + b % 7, 20 + n % 5),)),
    "padding_of_a_size": Sized(
        lambda a: F.conv2d(a, CONV.weight.to(a.dtype), padding=(a.shape[2] // 4, 1)).relu(), lambda b, n: (x(2, 3, b + 5, n + 5),)
    ),
    "train_padding_of_a_size": Sized(
        lambda a: F.conv2d(a, CONV.weight.to(a.dtype), padding=(a.shape[2] // 4, 1)),
        lambda b, n: (x(2, 3, b + 5, n + 5),),
        train=True,
    ),
    # torch guards on what divides a size
    "group_norm": Sized(lambda a: F.group_norm(a, 4), lambda b, n: (x(b, 4 * b, n + 3),)),
    "train_group_norm": Sized(lambda a: F.group_norm(a, 4), lambda b, n: (x(3, 4 * b, b + 5, n + 3),), train=True),
    "instance_norm": Sized(lambda a: F.instance_norm(a), lambda b, n: (x(b, 3, b + 3, n + 3),)),
    "train_instance_norm": Sized(lambda a: F.instance_norm(a), lambda b, n: (x(b, 3, n + 3),), train=True),
    # half a size, doubled, may lack one of the size
    "skipped_connection": Sized(skipped_connection, areas, compiled=PARITIES),
    "train_skipped_connection": Sized(skipped_connection, areas, train=True, compiled=2 * PARITIES),
    "windows": Sized(windows, lambda b, n: (x(2, 4 * b, 4 * n, 3),)),
    "windows_of_a_convolution": Sized(
        lambda a: windows(F.conv2d(a, CONV.weight.to(a.dtype), stride=2).permute(0, 2, 3, 1)),
        lambda b, n: (x(2, 3, 8 * b + 2, 8 * n + 1),),
    ),
    "pixel_unshuffle": Sized(lambda a: F.pixel_unshuffle(a, 2), lambda b, n: (x(2, 3, 2 * b + 8, 2 * n + 8),)),
    "adaptive_pool": Sized(lambda a: F.adaptive_avg_pool2d(a, (7, 2)), areas),
    "adaptive_pool_of_rows": Sized(lambda a: F.adaptive_avg_pool1d(a, 5), lambda b, n: (x(b, 3, n),)),
    "train_adaptive_pool": Sized(lambda a: F.adaptive_avg_pool2d(a, 4), areas, train=True),
    "adaptive_maxima": Sized(lambda a: F.adaptive_max_pool2d(a, (3, 2), return_indices=True), areas),
    "train_adaptive_maxima": Sized(lambda a: F.adaptive_max_pool2d(a, 3) + F.adaptive_max_pool2d(a, 1), areas, train=True),
    "train_windows_of_rows": Sized(lambda a: a.unfold(1, 5, 3).sin(), lambda b, n: (x(b, n + 8),), train=True),
    "train_windows_of_images": Sized(lambda a: F.unfold(a, 3, padding=1, stride=2).sin(), areas, train=True),
    "dilated_windows_of_images": Sized(
        lambda a: F.fold(F.unfold(a, 3, 2, 1, 2), a.shape[2:], 3, 2, 1, 2), lambda b, n: (x(2, 3, b + 9, n + 9),)
    ),
    **{
        f"train_{mode}_borders": Sized(
            lambda a, b, mode=mode: F.pad(a, (b.shape[0], b.shape[0] + 1), mode).sin(),
            lambda b, n: (x(2, 3, 9 * b), x(b)),
            train=True,
        )
        for mode in ("reflect", "replicate", "circular")
    },
    "wrapped_and_cut": Sized(
        lambda a, b, c: F.pad(a, (-c.shape[0], b.shape[0], 1 - b.shape[0], c.shape[0]), "circular"),
        lambda b, n: (x(1, 3, 4 * b + n, 5 * n + b), x(b), x(n)),
    ),
    "resize_nearest": Sized(lambda a: F.interpolate(a, scale_factor=2), areas),
    "resize_nearest_three": Sized(lambda a: F.interpolate(a, scale_factor=3), areas),
    "resize_nearest_exact": Sized(lambda a: F.interpolate(a, scale_factor=0.75, mode="nearest-exact"), areas),
    "resize_linear": Sized(lambda a: F.interpolate(a, scale_factor=1.5, mode="linear"), lambda b, n: (x(b, 3, n),)),
    "resize_bilinear": Sized(lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), areas),
    "resize_aligned": Sized(lambda a: F.interpolate(a, scale_factor=0.5, mode="bilinear", align_corners=True), areas),
    "resize_to_a_number": Sized(lambda a: F.interpolate(a, size=(14, 9), mode="bilinear"), areas),
    "resize_like": Sized(lambda a, b: F.interpolate(a, b.shape[-2:], mode="bilinear"), pairs),
    "resize_bicubic": Sized(lambda a: F.interpolate(a, size=(a.shape[2] * 2, a.shape[3] + 3), mode="bicubic"), areas),
    "resize_positions": Sized(resized_positions, areas),
    "resize_antialiased": Sized(lambda a: F.interpolate(a, scale_factor=0.5, mode="bicubic", antialias=True), areas),
    "train_resize_antialiased": Sized(
        lambda a: F.interpolate(a, scale_factor=0.25, mode="bilinear", antialias=True), areas, train=True
    ),
    "train_resize_of_a_convolution": Sized(resized_convolution, lambda b, n: (x(2, 3, b + 9, n + 9),), train=True),
    "resize_of_rows": Sized(resized_rows, lambda b, n: (x(b + 13, 15 * n, 6), x(b + 13, 3, n + 7, 20))),
    "train_resize_nearest": Sized(lambda a: F.interpolate(a, scale_factor=2), areas, train=True),
    "train_resize_like": Sized(lambda a, b: F.interpolate(a, b.shape[-2:], mode="bilinear") * b, pairs, train=True),
    "max_pool": Sized(lambda a: F.max_pool2d(a, 2), images),
    "avg_pool": Sized(lambda a: F.avg_pool2d(a, 2), images),
    "max_pool_places": Sized(lambda a: F.max_pool2d(a, 3, 2, 1, ceil_mode=True), areas, compiled=PARITIES),
    "avg_pool_places": Sized(lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True, count_include_pad=False), areas, compiled=PARITIES),
    "train_pools": Sized(
        lambda a: F.avg_pool2d(F.max_pool2d(a, 2), 3, 1, 1, count_include_pad=False), areas, train=True, compiled=2 * PARITIES
    ),
    # torch itself guards whether a batch has 16 images, from which on oneDNN computes.
    "conv": Sized(lambda a: F.conv2d(a, CONV.weight.to(a.dtype), padding=1).relu(), images, compiled=2),
    "conv_tokens": Sized(lambda a: convolutions(a).flatten(2).transpose(1, 2).softmax(1), images, compiled=2),
    "conv_pointwise": Sized(convolutions, images, compiled=2),
    "conv_depthwise": Sized(depthwise, images, compiled=2),
    "conv_depthwise_batch": Sized(lambda a: depthwise(a + PIXELS.weight.to(a.dtype).view(3, 12, 14)), images, compiled=2),
    "train_conv": Sized(images_norm, images, train=True, compiled=4),
}

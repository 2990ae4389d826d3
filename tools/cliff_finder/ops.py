"""Lists operations by the kind of their operand; each draws its parameters for a shape, or returns None if it does not fit."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Shape = tuple[int, ...]
Drawn = tuple[str, str] | None
"""An expression and the constructor of its module ("" for none); None if the operation does not fit."""

IMAGE, SIGNAL, SEQUENCE, MATRIX = "image", "signal", "sequence", "matrix"
"""Names the kinds of value: N C H W, N C L, N S D, N D."""


@dataclass(frozen=True)
class DrawnOp:
    """Describes an operation that can be drawn.

    draw      draws its parameters for the operand's shape
    group     what kind of operation it is, for the orders in which they occur
    gives     the kind of its result
    weight    how often it is drawn, relative to others
    operands  1, or 2 where an earlier value of the same shape is the second
    """

    draw: Callable[[Random, Shape], Drawn]
    group: str
    gives: str
    weight: float = 1.0
    operands: int = 1


def _said(*expressions: str) -> Callable[[Random, Shape], Drawn]:
    return lambda rng, shape: (rng.choice(expressions), "")


ACTIVATION = _said(
    "F.relu({0})", "F.gelu({0})", "F.gelu({0}, approximate='tanh')", "F.silu({0})", "torch.sigmoid({0})", "torch.tanh({0})", "F.leaky_relu({0}, 0.1)",
    "F.hardswish({0})", "F.hardsigmoid({0})", "F.softplus({0})", "F.mish({0})", "F.elu({0})", "F.relu6({0})", "torch.clamp({0}, -1.0, 1.0)",
)  # fmt: skip
POINTWISE = _said("{0} * 2 + 1", "{0} * {0}", "torch.exp(-{0}.abs())", "{0} / 3.0", "torch.sqrt({0}.abs() + 1)", "-{0}", "{0}.square() - 1", "torch.where({0} > 0, {0}, {0} * 0.5)")  # fmt: skip


def _channels(rng: Random, now: int) -> int:
    return rng.choice([now, now, now * 2, max(1, now // 2), 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 512, rng.randint(1, 96)])


def convolution(rank: int) -> Callable[[Random, Shape], Drawn]:
    """Returns a function that draws convolutions of `rank` dimensions, some grouped, depthwise, strided or dilated."""

    def draw(rng: Random, shape: Shape) -> Drawn:
        """Draws a convolution."""
        now, sizes = shape[1], shape[2:]
        kernel = [rng.choice([1, 1, 3, 3, 3, 5, 7])] * rank
        if rank == 2 and rng.random() < 0.15:
            kernel = rng.choice([[1, 7], [7, 1], [3, 1], [1, 3], [5, 3], [1, 11]])
        dilation = rng.choice([1] * 9 + [2, 4])
        if any((k - 1) * dilation + 1 > s + 2 * (k // 2) for k, s in zip(kernel, sizes, strict=True)):
            return None
        stride = rng.choice([1, 1, 1, 2]) if min(sizes) >= 8 else 1
        out, groups = _channels(rng, now), 1
        what = rng.random()
        if what < 0.2:
            out, groups = now, now
        elif what < 0.3 and now % 8 == 0:
            out, groups = now, rng.choice([2, 4, 8])
        padding = [k // 2 * dilation for k in kernel]
        more = (
            f", dilation={dilation}" * (dilation > 1) + f", groups={groups}" * (groups > 1) + ", bias=False" * (rng.random() < 0.4)
        )
        return "{m}({0})", f"nn.Conv{rank}d({now}, {out}, {tuple(kernel)}, stride={stride}, padding={tuple(padding)}{more})"

    return draw


def transposed_convolution(rng: Random, shape: Shape) -> Drawn:
    """Draws a transposed 2D convolution, on images of at most 128 pixels a side."""
    kernel, stride, padding = rng.choice([(2, 2, 0), (4, 2, 1), (3, 1, 1), (3, 2, 1)])
    if max(shape[2:]) > 128:
        return None
    return "{m}({0})", f"nn.ConvTranspose2d({shape[1]}, {_channels(rng, shape[1])}, {kernel}, stride={stride}, padding={padding})"


def normalized(rank: int) -> Callable[[Random, Shape], Drawn]:
    """Returns a function that draws norms of values whose second dimension is channels."""

    def draw(rng: Random, shape: Shape) -> Drawn:
        """Draws a normalization."""
        c = shape[1]
        groups = rng.choice([g for g in (1, 2, 4, 8, 16, 32) if c % g == 0])
        over = f"{{0}} * torch.rsqrt({{0}}.square().mean(1, keepdim=True) + 1e-6) * {{m}}.weight.view(1, -1{', 1' * rank})"
        choices: list[tuple[str, str]] = [("{m}({0})", f"nn.BatchNorm{rank}d({c})")] * 4
        choices += [("{m}({0})", f"nn.GroupNorm({groups}, {c})"), (over, f"nn.RMSNorm({c})")]
        if shape[2] * shape[-1] > 1:
            choices.append(("{m}({0})", f"nn.InstanceNorm{rank}d({c}, affine={rng.choice([True, False])})"))
        if rank == 2:
            choices.append(("{m}({0}.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", f"nn.LayerNorm({c})"))
        return rng.choice(choices)

    return draw


def row_norm(rng: Random, shape: Shape) -> Drawn:
    """Draws LayerNorm or RMSNorm over the last dimension."""
    return "{m}({0})", f"nn.{rng.choice(['LayerNorm', 'LayerNorm', 'RMSNorm'])}({shape[-1]})"


def pooling(rank: int) -> Callable[[Random, Shape], Drawn]:
    """Returns a function that draws max and average pooling."""

    def draw(rng: Random, shape: Shape) -> Drawn:
        """Draws a pooling."""
        kernel, stride, padding = rng.choice([(2, 2, 0), (3, 2, 1), (3, 1, 1)])
        if min(shape[2:]) < kernel:
            return None
        return f"F.{rng.choice(['max', 'max', 'avg'])}_pool{rank}d({{0}}, {kernel}, {stride}, {padding})", ""

    return draw


def resized(rng: Random, shape: Shape) -> Drawn:
    """Draws upsampling by 2, nearest or bilinear, of images of at most 96 pixels a side."""
    if max(shape[2:]) > 96:
        return None
    mode = rng.choice(["mode='nearest'", "mode='bilinear', align_corners=False"])
    return f"F.interpolate({{0}}, scale_factor=2, {mode})", ""


def shuffled(rng: Random, shape: Shape) -> Drawn:
    """Draws a pixel shuffle by 2."""
    return ("F.pixel_shuffle({0}, 2)", "") if shape[1] % 4 == 0 else None


def gated(dim: int) -> Callable[[Random, Shape], Drawn]:
    """Returns a function that draws gated linear units: gate and up are the two halves of dimension `dim`."""

    def draw(rng: Random, shape: Shape) -> Drawn:
        """Draws a gate; None for an odd size."""
        if shape[dim] % 2:
            return None
        gate = rng.choice(["F.silu", "F.gelu", "torch.sigmoid"])
        return f"{gate}({{0}}.chunk(2, {dim})[0]) * {{0}}.chunk(2, {dim})[1]", ""

    return draw


def squeezed(rng: Random, shape: Shape) -> Drawn:
    """Draws squeeze and excitation."""
    c = shape[1]
    inner = max(1, c // 4)
    gate = (
        f"nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d({c}, {inner}, 1), nn.ReLU(), nn.Conv2d({inner}, {c}, 1), nn.Sigmoid())"
    )
    return "{0} * {m}({0})", gate


def reduced(rng: Random, shape: Shape) -> Drawn:
    """Draws a reduction over some dimensions, but never the first, which are kept with size 1."""
    dims = sorted(rng.sample(range(1, len(shape)), rng.randint(1, len(shape) - 1)))
    return _reduction(rng, dims, keep=True)


def reduced_to_matrix(rng: Random, shape: Shape) -> Drawn:
    """Draws a reduction of all dimensions after the second."""
    return _reduction(rng, list(range(2, len(shape))), keep=False)


def reduced_columns(rng: Random, shape: Shape) -> Drawn:
    """Draws a reduction of the first dimension, which is kept with size 1."""
    return _reduction(rng, [0], keep=True)


def _reduction(rng: Random, dims: list[int], keep: bool) -> Drawn:
    options = f"{tuple(dims)}, keepdim={keep}"
    ways = [
        f"{{0}}.mean({options})",
        f"{{0}}.sum({options})",
        f"{{0}}.amax({options})",
        f"torch.logsumexp({{0}}, {options})",
        f"{{0}}.norm(dim={options})",
        f"{{0}}.var({tuple(dims)}, unbiased=False, keepdim={keep})",
    ]
    return rng.choice(ways), ""


def tokens(rng: Random, shape: Shape) -> Drawn:
    """Draws the flattening of an image's pixels to a sequence."""
    return ("{0}.flatten(2).transpose(1, 2)", "") if shape[2] * shape[3] > 1 else None


def linear(rng: Random, shape: Shape) -> Drawn:
    """Draws a linear layer."""
    d = shape[-1]
    out = rng.choice([d, d, 2 * d, 4 * d, max(1, d // 4), 64, 256, 384, 512, 768, 1000, 1024, rng.randint(1, 300)])
    return "{m}({0})", f"nn.Linear({d}, {min(out, 8192)}, bias={rng.random() < 0.7})"


def attention(rng: Random, shape: Shape) -> Drawn:
    """Draws self-attention whose query, key and value come from one product."""
    d = shape[-1]
    heads = [h for h in (1, 2, 4, 8, 12, 16) if d % h == 0 and d // h in (16, 32, 64, 80, 96, 128)]
    if not heads or shape[1] > 4096:
        return None
    h, causal = rng.choice(heads), rng.random() < 0.4
    n, s = shape[:2]
    split = f".view({n}, {s}, 3, {h}, {d // h}).permute(2, 0, 3, 1, 4)"
    return (
        f"F.scaled_dot_product_attention(*{{m}}({{0}}){split}, is_causal={causal}).transpose(1, 2).reshape({n}, {s}, {d})",
        f"nn.Linear({d}, {3 * d})",
    )


def encoder_layer(rng: Random, shape: Shape) -> Drawn:
    """Draws a transformer encoder layer."""
    d = shape[-1]
    heads = [h for h in (2, 4, 8, 12) if d % h == 0]
    if not heads or shape[1] > 1024 or d > 1024:
        return None
    inner = f"nn.TransformerEncoderLayer({d}, {rng.choice(heads)}, {rng.choice([2, 4]) * d}, dropout=0.0, batch_first=True"
    return "{m}({0})", f"{inner}, norm_first={rng.random() < 0.5}, activation={rng.choice(['relu', 'gelu'])!r})"


def across(rng: Random, shape: Shape) -> Drawn:
    """Draws attention of a sequence with itself, without projections."""
    return ("torch.softmax({0} @ {0}.transpose(1, 2) * 0.1, -1) @ {0}", "") if shape[1] <= 2048 else None


def last_token(rng: Random, shape: Shape) -> Drawn:
    """Draws a reduction of a sequence to a matrix: its first or last token, mean or maximum."""
    return rng.choice(["{0}[:, 0]", "{0}[:, -1]", "{0}.mean(1)", "{0}.amax(1)"]), ""


def scanned(rng: Random, shape: Shape) -> Drawn:
    """Draws a cumulative sum."""
    return rng.choice(["{0}.cumsum(1)", "{0}.cumsum(-1)"]), ""


SOFTMAX = _said("torch.softmax({0}, -1)", "torch.log_softmax({0}, -1)", "torch.softmax({0}, 1)")
JOINED = _said("{0} + {1}", "{0} + {1}", "{0} + {1}", "{0} * {1}", "{0} - {1}", "F.relu({0} + {1})")
CONCATENATED = _said("torch.cat([{0}, {1}], 1)")
SLICED = _said("{0}[..., 1:]", "{0}[:, ::2]", "F.pad({0}, (1, 2))", "{0}.flip(-1)", "torch.roll({0}, 1, -1)")

OPS: dict[str, list[DrawnOp]] = {
    IMAGE: [
        DrawnOp(convolution(2), "product", IMAGE, 5), DrawnOp(transposed_convolution, "product", IMAGE, 0.6), DrawnOp(normalized(2), "norm", IMAGE, 2),
        DrawnOp(ACTIVATION, "activation", IMAGE, 2), DrawnOp(POINTWISE, "activation", IMAGE, 0.7), DrawnOp(pooling(2), "pool", IMAGE, 0.8),
        DrawnOp(resized, "pool", IMAGE, 0.3), DrawnOp(shuffled, "pool", IMAGE, 0.15), DrawnOp(gated(1), "activation", IMAGE, 0.3),
        DrawnOp(squeezed, "pool", IMAGE, 0.4), DrawnOp(reduced, "reduction", IMAGE, 0.3), DrawnOp(reduced_to_matrix, "reduction", MATRIX, 0.4),
        DrawnOp(JOINED, "join", IMAGE, 1, 2), DrawnOp(CONCATENATED, "join", IMAGE, 0.3, 2), DrawnOp(tokens, "move", SEQUENCE, 0.3),
        DrawnOp(SLICED, "move", IMAGE, 0.2), DrawnOp(SOFTMAX, "norm", IMAGE, 0.15),
    ],
    SIGNAL: [
        DrawnOp(convolution(1), "product", SIGNAL, 4), DrawnOp(normalized(1), "norm", SIGNAL, 1.5), DrawnOp(ACTIVATION, "activation", SIGNAL, 2),
        DrawnOp(pooling(1), "pool", SIGNAL, 0.6), DrawnOp(gated(1), "activation", SIGNAL, 0.5), DrawnOp(reduced, "reduction", SIGNAL, 0.3),
        DrawnOp(JOINED, "join", SIGNAL, 1, 2), DrawnOp(_said("{0}.transpose(1, 2)"), "move", SEQUENCE, 0.4), DrawnOp(SLICED, "move", SIGNAL, 0.2),
    ],
    SEQUENCE: [
        DrawnOp(linear, "product", SEQUENCE, 4), DrawnOp(attention, "attention", SEQUENCE, 1), DrawnOp(encoder_layer, "attention", SEQUENCE, 0.3),
        DrawnOp(across, "attention", SEQUENCE, 0.2), DrawnOp(row_norm, "norm", SEQUENCE, 2), DrawnOp(ACTIVATION, "activation", SEQUENCE, 2),
        DrawnOp(POINTWISE, "activation", SEQUENCE, 0.7), DrawnOp(gated(2), "activation", SEQUENCE, 0.6), DrawnOp(SOFTMAX, "norm", SEQUENCE, 0.4),
        DrawnOp(reduced, "reduction", SEQUENCE, 0.4), DrawnOp(last_token, "reduction", MATRIX, 0.4), DrawnOp(scanned, "reduction", SEQUENCE, 0.15),
        DrawnOp(JOINED, "join", SEQUENCE, 1.5, 2), DrawnOp(_said("{0}.transpose(1, 2)"), "move", SIGNAL, 0.15), DrawnOp(SLICED, "move", SEQUENCE, 0.2),
    ],
    MATRIX: [
        DrawnOp(linear, "product", MATRIX, 4), DrawnOp(row_norm, "norm", MATRIX, 1), DrawnOp(ACTIVATION, "activation", MATRIX, 2),
        DrawnOp(POINTWISE, "activation", MATRIX, 0.7), DrawnOp(SOFTMAX, "norm", MATRIX, 0.6), DrawnOp(reduced, "reduction", MATRIX, 0.5),
        DrawnOp(reduced_columns, "reduction", MATRIX, 0.3), DrawnOp(scanned, "reduction", MATRIX, 0.15), DrawnOp(JOINED, "join", MATRIX, 1, 2),
        DrawnOp(_said("{0} @ {0}.t()"), "product", MATRIX, 0.15), DrawnOp(_said("{0}.t()"), "move", MATRIX, 0.1), DrawnOp(SLICED, "move", MATRIX, 0.15),
    ],
}  # fmt: skip
"""Maps a kind of value to the operations that take it."""

FOLLOWS = {
    "product": {"norm": 4.0, "activation": 2.0, "join": 2.0}, "norm": {"activation": 3.0, "product": 2.0, "attention": 3.0, "norm": 0.1},
    "activation": {"product": 3.0, "pool": 1.5, "activation": 0.3}, "join": {"norm": 3.0, "activation": 2.0}, "pool": {"product": 2.0},
    "attention": {"join": 6.0, "norm": 2.0}, "move": {"move": 0.2},
}  # fmt: skip
"""Factors on the weight of a group after another group, so that operations are ordered as in real models."""

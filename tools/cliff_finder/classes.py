"""Lists a representative graph for each class: convolutions with epilogues, norms along channels, training, products of odd shapes."""

from collections.abc import Iterator

from .graph import DrawnGraph, DrawnInput, DrawnNode

Step = str | tuple[str, str]
"""Describes an operation: an expression of the previous value, {0}, alone or with the constructor of its module, {m}."""


def classes(device: str) -> dict[str, DrawnGraph]:
    """Returns graphs by name, in sizes that suit the device."""
    return dict(_gpu() if device == "cuda" else _cpu())


def chain(
    shape: tuple[int, ...], *steps: Step, dtype: str = "float32", mode: str = "inference", layout: str = "contiguous"
) -> DrawnGraph:
    """Returns a graph in which each operation takes the result of the previous one."""
    nodes = []
    for i, step in enumerate(steps):
        expression, module = step if isinstance(step, tuple) else (step, "")
        nodes.append(DrawnNode(expression, (i,), module))
    return DrawnGraph((DrawnInput(shape, dtype, layout),), tuple(nodes), mode, dtype)


def module(constructor: str) -> Step:
    """Returns a step that applies a module to one value."""
    return "{m}({0})", constructor


_RELU, _GELU = "F.relu({0})", "F.gelu({0})"
_RMS = "{0} * torch.rsqrt({0}.square().mean(1, keepdim=True) + 1e-6)"


def _gpu() -> Iterator[tuple[str, DrawnGraph]]:
    for dtype in ("float32", "bfloat16"):
        images = (32, 64, 56, 56)
        conv, norm = module("nn.Conv2d(64, 64, 3, padding=1, bias=False)"), module("nn.BatchNorm2d(64)")
        yield f"convolution {dtype}", chain(images, conv, dtype=dtype)
        yield f"convolution norm relu {dtype}", chain(images, conv, norm, _RELU, dtype=dtype)
        yield (
            f"convolution bias tanh scale {dtype}",
            chain(images, module("nn.Conv2d(64, 96, 3)"), "torch.tanh({0}) * 2 + 1", dtype=dtype),
        )
        block = [conv, norm, _RELU] * 3
        yield f"three convolutions {dtype}", chain(images, *block, dtype=dtype)
        yield (
            f"pool sigmoid sum {dtype}",
            chain(images, conv, "F.avg_pool2d({0}, 4)", "torch.sigmoid({0}).sum((1, 2, 3))", dtype=dtype),
        )
        transposed = module("nn.ConvTranspose2d(64, 32, 4, 2, 1)")
        yield (
            f"transposed convolution {dtype}",
            chain(images, transposed, "F.hardtanh({0} + 1)", "{0}.mean((2, 3), keepdim=True)", dtype=dtype),
        )
        yield f"batch norm training {dtype}", chain(images, norm, dtype=dtype, mode="gradients")
        yield f"convolution norm training {dtype}", chain(images, conv, norm, _RELU, dtype=dtype, mode="gradients")
        yield f"three convolutions training {dtype}", chain(images, *block, dtype=dtype, mode="gradients")
        yield f"rms norm of channels {dtype}", chain(images, _RMS, dtype=dtype)
        yield f"instance norm {dtype}", chain(images, module("nn.InstanceNorm2d(64)"), dtype=dtype)
        yield f"group norm {dtype}", chain(images, module("nn.GroupNorm(8, 64)"), dtype=dtype)
        deep = module("nn.Conv2d(64, 64, 3, padding=1, groups=64)")
        yield f"depthwise pointwise {dtype}", chain(images, deep, norm, module("nn.Conv2d(64, 128, 1)"), _GELU, dtype=dtype)
        layer = module("nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, activation='gelu')")
        yield f"encoder layer {dtype}", chain((16, 256, 512), layer, dtype=dtype)
        yield f"encoder layer training {dtype}", chain((16, 256, 512), layer, dtype=dtype, mode="gradients")
        signals = [module("nn.Conv1d(64, 128, 5, padding=2)"), _GELU, module("nn.Conv1d(128, 128, 3, stride=2, padding=1)"), _GELU]
        yield f"convolutions of signals {dtype}", chain((16, 64, 2048), *signals, dtype=dtype)
        yield f"convolutions of signals training {dtype}", chain((16, 64, 2048), *signals, dtype=dtype, mode="gradients")
        yield f"upsampling {dtype}", chain(images, "F.interpolate({0}, scale_factor=2, mode='bilinear')", conv, dtype=dtype)
        nearest = "F.interpolate({0}, scale_factor=2, mode='nearest')"
        yield f"upsampling training {dtype}", chain(images, conv, nearest, conv, dtype=dtype, mode="gradients")
        yield (
            f"odd rows {dtype}",
            chain((64, 1024, 119), module("nn.LayerNorm(119)"), module("nn.Linear(119, 119)"), "F.elu({0})", dtype=dtype),
        )
        yield f"matrix times vector {dtype}", chain((4096, 8192), module("nn.Linear(8192, 1)"), dtype=dtype)
    yield (
        "convolution 3d",
        chain((8, 16, 16, 64, 64), module("nn.Conv3d(16, 32, 3)"), "F.max_pool3d({0}, 2).logsumexp(1, keepdim=True)", _RELU),
    )
    yield "cumulative sum", chain((4096, 4000), "{0}.cumsum(1)")
    yield "cosine", chain((16384, 1024), "F.normalize({0}, dim=-1)", "{0}.sum(-1)")


def _cpu() -> Iterator[tuple[str, DrawnGraph]]:
    images = (4, 32, 56, 56)
    conv, norm = module("nn.Conv2d(32, 32, 3, padding=1, bias=False)"), module("nn.BatchNorm2d(32)")
    yield "convolution norm relu", chain(images, conv, norm, _RELU)
    yield "pool sigmoid sum", chain(images, conv, "F.avg_pool2d({0}, 4)", "torch.sigmoid({0}).sum((1, 2, 3))")
    transposed = module("nn.ConvTranspose2d(32, 32, 4, 2, 1)")
    yield "transposed convolution pool", chain(images, transposed, "F.max_pool2d({0}, 2)", "{0}.mean((2, 3), keepdim=True)")
    yield "transposed convolution", chain(images, transposed)
    yield "batch norm training", chain(images, norm, mode="gradients")
    yield "convolution norm training", chain(images, conv, norm, _RELU, mode="gradients")
    yield "rms norm of channels", chain(images, _RMS)
    yield "instance norm", chain(images, module("nn.InstanceNorm2d(32)"))
    yield "group norm", chain(images, module("nn.GroupNorm(8, 32)"))
    yield "depthwise oblong", chain(images, module("nn.Conv2d(32, 32, (3, 7), padding=(1, 3), groups=32)"))
    yield "depthwise tall", chain(images, module("nn.Conv2d(32, 32, (7, 1), padding=(3, 0), groups=32)"))
    yield "depthwise pointwise", chain(images, module("nn.Conv2d(32, 32, 3, padding=1, groups=32)"), module("nn.Conv2d(32, 64, 1)"))
    layer = module("nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)")
    yield "encoder layer", chain((2, 128, 256), layer)
    yield "encoder layer training", chain((2, 128, 256), layer, mode="gradients")
    yield "matrix times vector", chain((2048, 8192), module("nn.Linear(8192, 1, bias=False)"))
    yield "vector times matrix", chain((1, 4096), module("nn.Linear(4096, 4096)"))
    yield "skinny product", chain((2048, 4096), module("nn.Linear(4096, 8)"))
    yield "odd product", chain((513, 771), module("nn.Linear(771, 1021)"))
    yield "gelu", chain((2048, 4096), _GELU)
    yield "tanh", chain((2048, 4096), "torch.tanh({0})")
    yield "max pooling of signals", chain((16, 64, 8192), "F.max_pool1d({0}, 4, 2, 1)")
    yield "average pooling of signals", chain((16, 64, 8192), "F.avg_pool1d({0}, 4, 2, 1)")
    yield "sums of columns", chain((4096, 2048), "{0}.sum(0)")
    yield "cumulative sum", chain((1024, 4000), "{0}.cumsum(1)")

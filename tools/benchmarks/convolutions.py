"""Measures the library's convolutions in both layouts: `python -m lamina.tools.benchmarks.convolutions OUT.csv --count 1000`.

Each line is a drawn convolution: its type, sizes, and the microseconds of the call (`f`), of the gradient of the image (`d`) and of
that of the weight (`w`), with the channels first (`0`) and last (`1`). `lamina/schedules/convolution_times.csv` is such a file;
lamina-layout chooses by it. On a new GPU, measure again and replace it.
"""

import argparse
import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import torch
from rich.progress import track
from torch import Tensor

from lamina.schedules.convolution_layout import ConvolutionShape, MeasuredConvolution

_KINDS = {"dense": 45, "depthwise": 20, "multiplied": 6, "grouped": 17, "transposed": 12, "stem": 8}
"""Maps kinds to how often they are drawn. A stem is the first convolution of a network."""
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_CHANNELS = (1, 3, 4, 8, 12, 16, 17, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
_SIDES = (1, 4, 7, 8, 14, 16, 28, 31, 32, 56, 64, 112, 128, 224)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_ELEMENTS = 60_000_000  # of an image, at most
_FLOPS = 3e11  # at most


@dataclass(frozen=True)
class DrawnConvolution(ConvolutionShape):
    """A convolution of square images and windows to measure."""

    side: int
    window: int

    @staticmethod
    def draw(
        rng: random.Random, kinds: Sequence[str] = tuple(_KINDS), dtypes: Sequence[str] = tuple(_DTYPES), dilated: float = 0.1
    ) -> "DrawnConvolution":
        """Draws one of these kinds and types with few enough elements and operations. dilated: the share of dilated ones."""
        while True:
            kind = rng.choices(kinds, [_KINDS[k] for k in kinds])[0]
            channels = rng.choice(_CHANNELS)
            features, groups = rng.choice((channels, channels, channels * 2, rng.choice(_CHANNELS))), 1
            if kind == "depthwise":
                features = groups = channels
            elif kind == "multiplied":
                features, groups = channels * rng.choice((2, 3, 4)), channels
            elif kind == "grouped":
                groups = rng.choice((2, 3, 4, 8, 16, 32))
                channels = groups * rng.choice((2, 4, 4, 8, 8, 16, 32, 64))
                features = channels * rng.choice((1, 1, 1, 2))
            elif kind == "transposed":
                groups = rng.choice((1, 1, 1, 1, channels))
                features = channels if groups > 1 else rng.choice((channels, -(-channels // 2), rng.choice(_CHANNELS)))
            elif kind == "stem":
                channels, features = rng.choice((1, 3, 3, 3, 4)), rng.choice((16, 24, 32, 48, 64, 96, 128))
            window = rng.choice((1, 2, 3, 3, 3, 4, 5, 7) if kind in ("dense", "transposed") else (3, 3, 3, 5, 7))
            found = DrawnConvolution(
                rng.choice(dtypes), rng.choice(_BATCHES), channels, features,
                rng.choice(_SIDES[6:] if kind == "stem" else _SIDES), window, groups,
                rng.choice((1, 2) if kind in ("stem", "transposed") else (1, 1, 1, 2)), 2 if rng.random() < dilated else 1,
                kind == "transposed",
            )  # fmt: skip
            pixels = found.batch * found.side**2
            flops = 2 * pixels * channels * features // groups * window**2
            if channels <= 1024 and features <= 2048 and pixels * max(channels, features) <= _ELEMENTS and flops <= _FLOPS:
                return found

    def measure(self) -> MeasuredConvolution:
        """Measures it on the current GPU."""
        (f0, d0, w0), (f1, d1, w1) = self._times(last=False), self._times(last=True)
        return MeasuredConvolution(**asdict(self), f0=f0, d0=d0, w0=w0, f1=f1, d1=d1, w1=w1)

    def _times(self, *, last: bool) -> tuple[float, float, float]:
        """Measures the convolution and the gradients of its image and of its weight, in microseconds."""
        layout = torch.channels_last if last else torch.contiguous_format
        dtype = _DTYPES[self.dtype]

        def laid_out(*shape: int) -> Tensor:
            """Draws a tensor in the layout."""
            return torch.randn(*shape, device="cuda", dtype=dtype).contiguous(memory_format=layout)

        image = laid_out(self.batch, self.channels, self.side, self.side)
        sides = (self.channels, self.features) if self.transposed else (self.features, self.channels)
        weight = laid_out(sides[0], sides[1] // self.groups, self.window, self.window)
        pad = self.window // 2 * self.dilation
        rest = ([self.stride] * 2, [pad] * 2, [self.dilation] * 2, self.transposed, [0] * 2, self.groups)
        out = torch.ops.aten.convolution(image, weight, None, *rest)
        gradient = torch.randn_like(out).contiguous(memory_format=layout)

        def backward(*mask: bool) -> Callable[[], object]:
            """Returns a call that computes these gradients."""
            return lambda: torch.ops.aten.convolution_backward(gradient, image, weight, None, *rest, [*mask, False])

        calls = (lambda: torch.ops.aten.convolution(image, weight, None, *rest), backward(True, False), backward(False, True))
        first, data, weights = (microseconds(call) for call in calls)
        return first, data, weights


def microseconds(run: Callable[[], object], calls: int = 6, rounds: int = 3) -> float:
    """Returns the least mean time of a call on the GPU, over rounds that the host issues while the GPU is kept busy."""
    for _ in range(2):
        run()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(rounds):
        torch.cuda._sleep(200_000)
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / calls * 1e3)
    return round(best, 1)


def main() -> None:
    """Measures drawn convolutions and writes them as CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=tuple(_KINDS))
    parser.add_argument("--dtypes", nargs="+", choices=_DTYPES, default=tuple(_DTYPES))
    parser.add_argument("--dilated", type=float, default=0.1, help="share of dilated convolutions (default: %(default)s)")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f.name for f in fields(MeasuredConvolution)])
        for _ in track(range(given.count), "convolutions"):
            drawn = DrawnConvolution.draw(rng, given.kinds, given.dtypes, given.dilated)
            try:
                found = drawn.measure()
            except RuntimeError:  # a result would be empty
                continue
            writer.writerow([int(v) if isinstance(v, bool) else v for v in astuple(found)])
            file.flush()


if __name__ == "__main__":
    main()

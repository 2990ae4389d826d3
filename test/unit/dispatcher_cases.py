"""Calls of operators that the native runner makes through torch's dispatcher, for the CPU and for GPUs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import programs as p
import torch
from programs import T
from torch import Tensor

from lamina.core.program import Program

aten = torch.ops.aten


@dataclass(frozen=True)
class Case:
    """A call; `exact`: its results in float64, by default those of the operator itself on tensors of float64; `mask`: which results
    are asked for, by default all."""

    callee: str
    tensors: list[Tensor]
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    exact: Callable[[], Sequence[Tensor | None]] | None = None
    tolerance: float = 1e-4
    mask: Sequence[bool] | None = None

    def eager(self, tensors: Sequence[Tensor] | None = None) -> list[Tensor | None]:
        """Return what the operator returns, None for a result that is undefined or not asked for."""
        given = self.tensors if tensors is None else tensors
        packet, name = self.callee.split(".")[1:]
        found = getattr(getattr(aten, packet), name)(
            *_filled(self.args, given), **{n: _filled(v, given) for n, v in self.kwargs.items()}
        )
        results = list(found) if isinstance(found, tuple | list) else [found]
        return [t if asked else None for t, asked in zip(results, self.mask or [True] * len(results), strict=True)]

    def reference(self) -> Sequence[Tensor | None]:
        """Return the results in float64."""
        if self.exact:
            return self.exact()
        return self.eager([t.double() if t.is_floating_point() else t for t in self.tensors])

    def program(self, results: Sequence[Tensor | None]) -> Program:
        """Return a program of the call, whose outputs are those results that there are."""
        there = [t for t in results if t is not None]
        kwargs = list(self.kwargs.items())
        whole = p.call_program(self.callee, self.tensors, self.args, there, reason="library", in_place=False, kwargs=kwargs)
        (step,) = whole.steps
        assert isinstance(step, p.Call)
        refs = iter(step.owned)
        owned = tuple(None if t is None else next(refs) for t in results)
        return p.replace(whole, steps=(p.replace(step, owned=owned),))

    def check(self, run: Callable[..., Sequence[Tensor]], results: Sequence[Tensor | None]) -> None:
        """Run the program twice, on fresh memory, and compare with eager and with float64, strides included."""
        pairs = [(eager, exact) for eager, exact in zip(results, self.reference(), strict=False) if eager is not None]
        for _ in range(2):
            got = run(*self.tensors)
            for found, (eager, want) in zip(got, pairs, strict=True):
                assert want is not None
                assert found.shape == eager.shape and found.dtype == eager.dtype and found.device == eager.device
                assert eager.numel() == 0 or _strides(found) == _strides(eager)
                torch.testing.assert_close(found, eager, rtol=self.tolerance, atol=self.tolerance, equal_nan=True)
                torch.testing.assert_close(found.double(), want.double(), rtol=10 * self.tolerance, atol=10 * self.tolerance)


def _strides(t: Tensor) -> list[int]:
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1]


def _filled(value: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(value, T):
        return tensors[value.index]
    return [_filled(v, tensors) for v in value] if isinstance(value, list) else value


def convolution(
    source: tuple[int, ...], weight: tuple[int, ...], *, device: str = "cpu", memory: Any = torch.contiguous_format,
    mask: Sequence[bool] = (True, True, True), groups: int = 1, transposed: bool = False, **geometry: list[int],
) -> Case:  # fmt: skip
    """Return the gradients of a convolution; `geometry`: stride, padding, dilation, output_padding where they are not the default."""
    dims = len(source) - 2
    default = {"stride": [1] * dims, "padding": [0] * dims, "dilation": [1] * dims, "output_padding": [0] * dims}
    g = default | geometry
    x, w = (torch.randn(shape, device=device).to(memory_format=memory) for shape in (source, weight))
    out = aten.convolution(x, w, None, g["stride"], g["padding"], g["dilation"], transposed, g["output_padding"], groups)
    bias = [out.shape[1]] if mask[2] else None
    args = [T(0), T(1), T(2), bias, g["stride"], g["padding"], g["dilation"], transposed, g["output_padding"], groups, list(mask)]
    return Case("aten.convolution_backward.default", [torch.randn_like(out), x, w], args, mask=mask)


MASKS = [mask for mask in product([True, False], repeat=3) if any(mask)]
LAST = torch.channels_last


def convolutions(device: str) -> Iterator[Case]:
    """Yield gradients of convolutions in 1 to 3 dimensions: sizes from nothing up, layouts, groups, geometry, masks."""
    for memory in (torch.contiguous_format, LAST):
        for mask in MASKS:
            yield convolution((2, 6, 9, 7), (4, 6, 3, 3), device=device, memory=memory, mask=mask, padding=[1, 1])
        for n in (1, 3, 127):
            yield convolution((1, n, 3, 5), (n, n, 1, 1), device=device, memory=memory)
            yield convolution((3, 1, n, 3), (2, 1, 1, 3), device=device, memory=memory)
        yield convolution((2, 6, 9, 7), (4, 3, 3, 2), device=device, memory=memory, groups=2, stride=[2, 1], padding=[1, 0])
        yield convolution((2, 6, 9, 7), (6, 1, 3, 3), device=device, memory=memory, groups=6, dilation=[2, 1], padding=[2, 1])
        yield convolution(
            (2, 6, 5, 4),
            (6, 2, 3, 3),
            device=device,
            memory=memory,
            groups=2,
            transposed=True,
            stride=[2, 2],
            output_padding=[1, 0],
        )
    if device == "cpu":  # on a GPU what the library gives is no gradient of its own, and the call goes through Python
        yield convolution((0, 3, 8, 8), (4, 3, 3, 3), device=device)
    yield convolution((2, 3, 127), (5, 3, 3), device=device, stride=[2])
    yield convolution((2, 3, 5, 6, 7), (4, 3, 2, 2, 2), device=device, padding=[1, 0, 1])


def embeddings(device: str) -> Iterator[Case]:
    """Yield gradients of embedding tables."""
    for rows, columns in ((1, 1), (3, 127), (127, 3), (0, 5)):
        for padding, by_frequency in ((-1, False), (0, False), (2, True)):
            if by_frequency and rows == 0:
                continue
            places = torch.randint(0, 7, (rows,), device=device)
            args = [T(0), T(1), 7, padding, by_frequency]
            yield Case("aten.embedding_dense_backward.default", [torch.randn(rows, columns, device=device), places], args)


def others(device: str) -> Iterator[Case]:
    """Yield calls with lists of tensors, absent tensors, optional numbers, defaults and several results."""
    x = torch.randn(2, 3, 8, 6, device=device)
    small = torch.randn(2, 3, 4, 3, device=device)
    yield Case("aten.avg_pool2d_backward.default", [small, x], [T(0), T(1), [2, 2], [2, 2], [0, 0], False, True, None])
    yield Case("aten.avg_pool2d_backward.default", [small, x], [T(0), T(1), [2, 2], [2, 2], [0, 0], False, True, 3])
    yield Case("aten._adaptive_avg_pool2d_backward.default", [small, x], [T(0), T(1)])
    yield Case("aten.upsample_bicubic2d_backward.default", [x], [T(0), [8, 6], [2, 3, 4, 3], False, 2.0, None])
    yield Case("aten.sort.default", [x], [T(0)], {"descending": True})
    yield Case("aten.cat.default", [x, x[:1].clone()], [[T(0), T(1)]])
    yield Case("aten.cumsum.default", [x], [T(0), -2])
    yield Case("aten.index.Tensor", [x, torch.tensor([2, 0], device=device)], [T(0), [None, T(1)]])
    grid = torch.rand(2, 5, 5, 2, device=device) * 2 - 1
    gradient = torch.randn(2, 3, 5, 5, device=device)
    yield Case("aten.grid_sampler_2d_backward.default", [gradient, x, grid], [T(0), T(1), T(2), 0, 0, False, [True, True]])


def attention(
    forward: str, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Case:
    """Return the gradients of attention as one of its kernels computes it: "flash_for_cpu", "flash", "efficient" or "cudnn"."""
    name = "flash_attention_for_cpu" if forward == "flash_for_cpu" else f"{forward}_attention"
    compute = getattr(aten, f"_scaled_dot_product_{name}")
    tensors = [torch.randn_like(q), q, k, v]

    def place(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        tensors.append(value)
        return T(len(tensors) - 1)

    named = {} if scale is None else {"scale": scale}
    head = [T(0), T(1), T(2), T(3)]
    if forward == "flash_for_cpu":
        given = {"attn_mask": bias} if bias is not None else {}
        out, sums = compute(q, k, v, 0.0, causal, **given, **named)
        args = [*head, place(out), place(sums), 0.0, causal]
        named = named | ({"attn_mask": place(bias)} if bias is not None else {})
    elif forward == "efficient":
        out, sums, seed, offset = compute(q, k, v, bias, True, 0.0, causal, **named)
        masks = [True, True, True, False]
        args = [*head, place(bias), place(out), place(sums), place(seed), place(offset), 0.0, masks, causal]
    else:
        first = (q, k, v, bias, True) if forward == "cudnn" else (q, k, v)
        out, sums, *lengths, longest_q, longest_k, seed, offset, _ = compute(*first, 0.0, causal, False, **named)
        args = [*head, place(out), place(sums)]
        places = [place(t) for t in lengths]
        sizes = [longest_q, longest_k, 0.0, causal]
        seeds = [place(seed), place(offset)]
        args += [*places, *sizes, *seeds] if forward == "flash" else [*seeds, place(bias), *places, *sizes]

    def exact() -> list[Tensor | None]:
        leaves = [t.double().requires_grad_() for t in (q, k, v)]
        mask = None if bias is None else bias.double()
        with torch.enable_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = torch.nn.functional.scaled_dot_product_attention(*leaves, mask, 0.0, causal, scale=scale)
            return list(torch.autograd.grad(y, leaves, tensors[0].double()))

    tolerance = 1e-4 if q.dtype == torch.float32 else 1e-2
    return Case(f"aten._scaled_dot_product_{name}_backward.default", tensors, args, named, exact, tolerance)

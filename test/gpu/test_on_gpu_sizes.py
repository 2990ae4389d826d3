"""Tests on a GPU that one compilation serves all sizes, with eager's values and strides."""

import copy
from collections.abc import Iterator

import pytest
import torch
from sized_attention import ATTENTIONS, AttentionGraph, tokens
from sized_graphs import GRAPHS, WEIGHTS, Sized, compilations, dynamic, sweep
from sized_images import IMAGE_WEIGHTS, IMAGES
from torch import Tensor, nn

from lamina.passes.families.choice import Choice
from lamina.passes.families.gemm.family import ProductProblem
from lamina.schedules.contraction import GemmConfig

__all__ = ["compilations"]
F = torch.nn.functional
MORE = {"instance_norm": 2}
"""Compilations on a GPU where a CPU needs fewer: statistics of a batch are one pass from 262144 elements on."""
ROWS = ((37, 3), (2, 2), (128, 5), (129, 31), (1000, 4), (4097, 2))


@pytest.fixture(scope="module")
def weights() -> Iterator[None]:
    """The graphs' weights are on the GPU."""
    for held in (WEIGHTS, IMAGE_WEIGHTS):
        held.to("cuda")
    yield
    for held in (WEIGHTS, IMAGE_WEIGHTS):
        held.to("cpu")


@pytest.mark.parametrize("name", [*GRAPHS, *IMAGES])
def test_one_compilation_serves_all_sizes(name: str, compilations: list[int], weights: None) -> None:
    torch.backends.cudnn.allow_tf32 = False  # torch's default, which eager and Lamina may follow for different convolutions
    graph: Sized = (GRAPHS | IMAGES)[name]
    sweep(graph, dynamic(graph.function), "cuda")
    assert len(compilations) <= MORE.get(name, graph.programs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_products_with_a_symbolic_number_of_rows(dtype: torch.dtype, train: bool, compilations: list[int]) -> None:
    """The products are large enough for Lamina's own kernels, with the ops after them."""
    up, down = (nn.Linear(n, k, device="cuda", dtype=dtype).requires_grad_(train) for n, k in ((256, 1024), (1024, 256)))

    def mlp(a: Tensor, weights: list[Tensor]) -> Tensor:
        return F.linear(F.gelu(F.linear(a, *weights[:2])), *weights[2:]) + a

    compiled = dynamic(mlp)
    held = [*up.parameters(), *down.parameters()]
    for rows in ROWS:
        a = torch.randn(*rows, 256, device="cuda", dtype=dtype).requires_grad_(train)
        toward = torch.randn_like(a)

        def run(fn: object, dtype: torch.dtype, a: Tensor = a, toward: Tensor = toward) -> list[Tensor]:
            given = [t.detach().to(dtype).requires_grad_(train) for t in (a, *held)]
            out = fn(given[0], given[1:])  # type: ignore[operator]
            return [out.detach(), *(torch.autograd.grad(out, given, toward.to(dtype)) if train else ())]

        for mine, theirs, want in zip(run(compiled, dtype), run(mlp, dtype), run(mlp, torch.float64), strict=True):
            off, of_eager = ((t.double() - want).abs().max() for t in (mine, theirs))
            assert off <= 2 * of_eager + 1e-3 * want.abs().max(), f"off by {off:.1e}, eager by {of_eager:.1e}, {rows} rows"
    assert len(compilations) == 1 + train


CONVOLUTIONS = {  # features, kernel, how
    "3x3": (32, 3, {"padding": 1}),
    "stride": (48, 3, {"padding": 1, "stride": 2}),
    "1x1": (64, 1, {}),
    "depthwise": (32, 7, {"padding": 3, "groups": 32}),
    "depthwise, stride": (32, 3, {"padding": 1, "stride": 2, "groups": 32}),
    "grouped": (64, 3, {"padding": 1, "groups": 2}),
}


@pytest.mark.parametrize("schedule", ["", "triton{m=64 n=32 k=32 warps=4 stages=3}"], ids=["default", "product"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_what_follows(name: str, schedule: str, compilations: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch, height and width are symbolic."""
    if schedule:
        choice = Choice.parse(schedule, (GemmConfig,))
        monkeypatch.setattr(ProductProblem, "default", lambda self, gpu: choice)
    features, kernel, how = CONVOLUTIONS[name]
    model = nn.Sequential(nn.Conv2d(32, features, kernel, **how), nn.BatchNorm2d(features), nn.Hardswish())  # type: ignore[arg-type]
    model = model.eval().cuda().to(torch.bfloat16).to(memory_format=torch.channels_last)
    run = dynamic(model)
    for n, h, w in ((2, 9, 10), (3, 56, 57), (16, 14, 28), (5, 7, 112), (33, 15, 13)):
        image = torch.randn(n, 32, h, w, device="cuda").to(torch.bfloat16).to(memory_format=torch.channels_last)
        with torch.no_grad():
            mine, theirs, want = run(image), model(image), copy.deepcopy(model).double()(image.double())
        assert mine.stride() == theirs.stride()
        assert (mine.double() - want).norm() <= 1.5 * (theirs.double() - want).norm() + 1e-5 * want.norm()
    assert len(compilations) == 1


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("graph", ATTENTIONS.values(), ids=ATTENTIONS.keys())
def test_attention_of_any_length(graph: AttentionGraph, train: bool, compilations: list[int]) -> None:
    """Heads of bf16 with each kind of mask: Lamina's kernels or torch's, over lengths within a block and of several blocks."""
    compiled = dynamic(graph.function)
    for batch, length in ((3, 300), (2, 2), (5, 65), (2, 1023), (7, 128)):
        x, lengths = tokens(batch, length, "cuda")
        toward = torch.randn(graph.function(x, lengths).shape, device="cuda")

        def run(fn: object, dtype: torch.dtype, x: Tensor = x, lengths: Tensor = lengths, toward: Tensor = toward) -> list[Tensor]:
            given = x.detach().to(dtype).requires_grad_(train)
            out = fn(given, lengths)  # type: ignore[operator]
            return [out.detach(), *(torch.autograd.grad(out, given, toward.to(out.dtype)) if train else ())]

        mine, theirs, want = run(compiled, x.dtype), run(graph.function, x.dtype), run(graph.function, torch.float64)
        for a, b, c in zip(mine, theirs, want, strict=True):
            off, of_eager = ((t.double() - c).abs().max() for t in (a, b))
            assert off <= 2 * of_eager + 4e-3 * c.abs().max(), f"off by {off:.1e}, eager by {of_eager:.1e}, {batch} x {length}"
    assert len(compilations) == 1 + train

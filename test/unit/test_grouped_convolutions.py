"""Tests grouped convolutions as Lamina kernels against float64: in strips, by the simulator, and as a product per group, by
Triton's interpreter; both are also compiled to cubins."""

import re
from collections.abc import Callable
from functools import partial

import gpu_programs
import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distribute, tiled
from problems import LIBRARY, kernels_of, products
from test_products_convolutions import check as check_product
from test_products_convolutions import random
from test_tune_products import annotated, graph_level
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Call, Launch
from lamina.core.target import Target
from lamina.passes.families.choice import DIRECT
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.schedules.convolution_cost import candidates
from lamina.schedules.product_cost import GemmWork
from lamina.targets import backend
from lamina.targets.levels import pipeline
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join
from lamina.tune.problems.subgraph_extraction import Subgraph
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

pytestmark = pytest.mark.usefixtures("channels_last")

BF16, F16, LAST = torch.bfloat16, torch.float16, torch.channels_last
BLOCKS = "triton{m=64 n=32 k=32 warps=4 stages=2}"
Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def check_strips(fn: Callable[..., Tensor], *inputs: Tensor) -> Simulated:
    """The weight in order, and the sums with what follows: what the launches did."""
    module, program = tiled(fn, inputs, products="direct")
    distribute(module)
    simulated = Simulated(module, program)
    found = simulated(*inputs)[0]
    want, eager = fn(*(x.double() for x in inputs)), fn(*inputs)
    assert found.stride() == eager.stride() and found.dtype == eager.dtype
    assert (found.double() - want).norm() <= 1.05 * (eager.double() - want).norm() + 1e-5 * want.norm()
    assert [type(s) for s in program.steps] == [Launch] * 2
    return simulated


CASES: list[tuple[Shape, Shape, dict[str, object]]] = [  # image, weight, how
    ((2, 32, 5, 8), (32, 4, 3, 3), {"groups": 8, "padding": 1}),  # ResNeXt's first stage
    ((1, 32, 6, 5), (32, 8, 3, 3), {"groups": 4, "padding": 1}),
    ((1, 32, 3, 7), (64, 16, 3, 3), {"groups": 2, "padding": 1, "stride": 2}),  # more features than channels
    ((2, 24, 4, 5), (16, 3, 3, 3), {"groups": 8, "padding": 1}),  # channels that are read one by one, pairs of features
    ((2, 16, 5, 7), (32, 1, 3, 3), {"groups": 16, "padding": 1}),  # a multiplier of channels
    ((1, 40, 4, 14), (40, 10, 1, 1), {"groups": 4}),  # windows of one element
    ((1, 16, 9, 10), (16, 4, 2, 5), {"groups": 4, "stride": (2, 1), "padding": (1, 2)}),
    ((1, 16, 3, 19), (16, 4, 3, 3), {"groups": 4, "padding": 1}),  # strips that share a column
    ((1, 16, 9, 8), (16, 4, 3, 3), {"groups": 4, "dilation": (3, 2), "padding": (3, 2)}),  # rows of a window between the image's
    ((2, 16, 10, 14), (16, 4, 3, 2), {"groups": 4, "dilation": (2, 3), "stride": (3, 2), "padding": (4, 1)}),
    ((2, 16, 5, 8), (16, 1, 3, 3), {"groups": 16, "dilation": 4, "padding": 4}),  # depthwise; the first and last rows are outside
    ((3, 16, 4, 6), (24, 4, 3, 3), {"groups": 4}),  # six features a group: pairs
    ((1, 3, 5, 13), (18, 1, 3, 4), {"groups": 3, "padding": (1, 6)}),  # windows that see nothing of the image
    ((2, 25, 5, 13), (20, 5, 1, 1), {"groups": 5, "padding": (2, 1), "stride": 2}),
    ((2, 48, 1, 13), (16, 24, 1, 1), {"groups": 2, "padding": 1}),  # channels in chunks, of pixels that no loop is over
]


@pytest.mark.parametrize(("image", "weight", "how"), CASES)
def test_strips(image: Shape, weight: Shape, how: dict[str, object]) -> None:
    check_strips(lambda x, w, b: F.relu(F.conv2d(x, w, b, **how)), random(*image), random(*weight), random(weight[0]))


@pytest.mark.parametrize(("group", "columns", "wide"), [(4, 8, 8), (8, 8, 8), (2, 8, 4), (6, 7, 4)])
def test_channels_are_read_together(group: int, columns: int, wide: int) -> None:
    """Each thread reads this many bytes of a pixel in one access."""
    x, w = random(1, 2 * group, 2, columns), random(2 * group, group, 3, 3)
    simulated = check_strips(lambda x, w: F.conv2d(x, w, padding=1, groups=2), x, w)
    assert set(simulated.results[-1].loads[0].accesses) == {wide}


def block(x: Tensor, w: Tensor, mean: Tensor, var: Tensor, g: Tensor, b: Tensor, r: Tensor, s: Tensor) -> Tensor:
    """Computes the ops between products in ResNeXt and RegNet: a norm, a gate of channels and a residual."""
    y = F.batch_norm(F.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1]), mean, var, g, b)
    return F.silu(y) * s + r


@pytest.mark.parametrize(("channels", "schedule"), [(4, "direct"), (16, BLOCKS)])
def test_what_follows_is_in_the_kernel(channels: int, schedule: str) -> None:
    n = 3 * channels
    vectors = random(n), torch.rand(n).to(BF16) + 0.5, random(n), random(n)
    inputs = random(2, n, 5, 7), random(n, channels, 3, 3), *vectors, random(2, n, 5, 7), random(2, n, 1, 1)
    if schedule == "direct":
        check_strips(block, *inputs)
    else:
        check_product(block, *inputs, schedule=schedule)


def test_half() -> None:
    inputs = random(2, 16, 3, 4, dtype=F16), random(16, 4, 3, 3, dtype=F16)
    check_strips(lambda x, w: F.conv2d(x, w, padding=1, groups=4), *inputs)
    check_product(lambda x, w: F.conv2d(x, w, padding=1, groups=4), *inputs)


PRODUCTS: list[tuple[Shape, Shape, dict[str, object]]] = [
    ((3, 32, 5, 7), (48, 16, 3, 3), {"groups": 2, "padding": 1}),
    ((1, 72, 5, 7), (51, 24, 3, 3), {"groups": 3, "padding": 2, "dilation": 2, "stride": 2}),
    ((2, 48, 5, 3), (48, 16, 1, 1), {"groups": 3}),  # a batch of products of matrices
    ((2, 64, 1, 20), (64, 32, 1, 5), {"groups": 2, "padding": (0, 2)}),
]


@pytest.mark.parametrize(("image", "weight", "how"), PRODUCTS)
def test_products_of_groups(image: Shape, weight: Shape, how: dict[str, object]) -> None:
    inputs = random(*image), random(*weight), random(weight[0])
    check_product(lambda x, w, b: F.relu(F.conv2d(x, w, b, **how)), *inputs, schedule=BLOCKS)


def test_what_stays() -> None:
    """Widely dilated windows, rows of few columns, odd numbers of features per group, and sums large enough for tensor cores."""
    for shape, weight, how in (
        ((1, 16, 8, 24), (16, 4, 3, 3), {"groups": 4, "dilation": (1, 12), "padding": (1, 12)}),
        ((1, 16, 4, 3), (16, 4, 3, 3), {"groups": 4, "padding": 1}),
        ((1, 16, 4, 8), (12, 4, 1, 1), {"groups": 4}),
        ((1, 128, 4, 8), (128, 64, 5, 5), {"groups": 2, "padding": 2}),
    ):
        _, program = tiled(lambda x, w, how=how: F.conv2d(x, w, **how), (random(*shape), random(*weight)), products="direct")
        assert [s.callee for s in program.steps if isinstance(s, Call)] == ["aten.convolution.default"]


@pytest.mark.parametrize(("group", "first"), [(4, ["direct"]), (16, ["triton", "direct"]), (232, ["triton"])])
def test_candidates(group: int, first: list[str]) -> None:
    """Strips for sums too small for tensor cores, products for larger ones. None is chosen unmeasured."""
    module = graph_level(random(8, 8 * group, 7, 14), random(8 * group, group, 3, 3), fn=partial(F.conv2d, padding=1, groups=8))
    with module.context, ir.Location.unknown():
        (problem,) = products(module)
        ours, unmeasured = kernels_of(problem, Gpu.named("sm_90a"))
    kinds = [c.partition("{")[0] for c in ours]
    assert kinds[: len(first)] == first and set(kinds) == set(first) and (len(kinds) > 2) == ("triton" in first)
    assert not unmeasured


def test_an_answer_makes_it_ours(store: Store, here: Identity) -> None:
    """The question includes the op's readers and the images' layout; the program then uses the candidate that was measured."""

    def net(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, w, b, padding=1, groups=8)) + 1

    module = graph_level(random(2, 32, 6, 7), random(32, 4, 3, 3), random(32), fn=net)
    (problem,) = products(module)
    cut = Subgraph(problem)
    assert cut.what.startswith("convolution 2x32x6x7 by 32x4x3x3 and ")
    cut_module = ir.Module.parse(cut.text, module.context)
    with module.context, ir.Location.unknown():
        cut.mark(cut_module, DIRECT)
    run(pipeline("graph", "tile", target=gpu_programs.TARGET), cut_module)
    store.put(
        Question(cut.key, cut.what, (LIBRARY, "direct"), LIBRARY), here, Answer("direct", (("direct", 1e-5), (LIBRARY, 2e-5)))
    )
    assert [answer.winner for _, answer in annotated(module, store)] == ["direct"]
    run(pipeline("graph", "tile", target=gpu_programs.TARGET), module)
    with module.context:
        for made in (cut_module, module):
            assert [type(step) for step in program_from(made, "cuda").steps] == [Launch, Launch]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", [(4, 56, 1), (16, 28, 2), (32, 7, 1)])  # channels of a group, rows of the image, stride
def test_code_of_strips(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], arch: str) -> None:
    """Nothing spills, and an SM holds three CTAs."""
    group, size, stride = shape
    monkeypatch.setattr(gpu_programs, "TARGET", f"nvvm:{arch}")
    inputs = random(1, 8 * group, size, size), random(8 * group, group, 3, 3), random(8 * group)
    module, _ = tiled(lambda x, w, b: F.relu(F.conv2d(x, w, b, stride, 1, groups=8)), inputs, products="direct")
    for needs in backend(Target.parse(f"nvvm:{arch}")).compile(module).resources:
        assert needs.spill_stores == needs.spill_loads == needs.stack == 0 and needs.registers <= 168


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("group", "size"), [(16, 14), (32, 7)])
def test_code_of_products(group: int, size: int, arch: str) -> None:
    """The first schedule compiles without spills and reads the image by cp.async, 16 bytes at a time."""
    gpu = Gpu.named(arch)
    work = GemmWork(8, 8 * size * size, group, 9 * group)
    inputs = random(8, 8 * group, size, size), random(8 * group, group, 3, 3)
    schedule = str(candidates(work, group, gpu)[0])
    module, _ = tiled(lambda x, w: F.relu(F.conv2d(x, w, padding=1, groups=8)), inputs, products=schedule)
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), arch).resources
    assert needs.spill_stores + needs.spill_loads == 0
    assert re.search(r"cp\.async\.c[ag]\.shared\.global \[.*?\], \[.*?\], 0x10", made.ptx)

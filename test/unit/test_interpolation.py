"""Tests interpolation, pooling and their gradients against float64: graphs, kernels for GPUs in the simulator, and whole calls on
a CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from kernel_inputs import BF16, run, x
from pairs import covering
from torch import Tensor, fx
from torch._export.utils import _collect_all_valid_cia_ops, _is_preservable_cia_op

import lamina
from lamina.frontend.capture.whole import RESIZING, kept_composite
from lamina.frontend.decompositions.gradients import ABOVE_AUTOGRAD
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx import support

aten = torch.ops.aten
Fn = Callable[[Tensor], Tensor]

NEAREST = {1: ["nearest", "nearest-exact"], 2: ["nearest", "nearest-exact"], 3: ["nearest"]}
SMOOTH = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
ALIGNS = [False, True]
BY: dict[str, dict[str, Any]] = {
    "twice": {"scale_factor": 2},
    "three times": {"scale_factor": 3},
    "1.7 times": {"scale_factor": 1.7},
    "2.5 times, recomputed": {"scale_factor": 2.5, "recompute_scale_factor": True},
    "half": {"scale_factor": 0.5},
    "to five": {"size": 5},
    "to one": {"size": 1},
}


def resized(mode: str, align: bool | None, how: dict[str, Any]) -> Fn:
    return lambda a: F.interpolate(a, mode=mode, align_corners=align, **how)


def trained(fn: Fn, a: Tensor) -> tuple[Tensor, list[fx.GraphModule]]:
    """The result of a call whose input requires a gradient, and the graphs of both passes once backward has run."""
    found: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: Any) -> Any:
        found.append(gm)
        return make_boxed_func(gm.forward)

    with kept_composite(*RESIZING):
        return aot_function(fn, fw_compiler=keep, bw_compiler=keep, decompositions=table())(a), found


def called(graphs: list[fx.GraphModule]) -> set[str]:
    return {str(n.target) for gm in graphs for n in gm.graph.nodes if n.op == "call_function" and support.reason(n)}


def hold(fn: Fn, a: Tensor, tolerance: float, calls: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """Asserts that values and gradient are those of eager in f64, that strides are eager's, and that only `calls` are ATen's."""
    mine, exact = a.clone().requires_grad_(), a.double().requires_grad_()
    got, graphs = trained(fn, mine)
    want = fn(exact)
    assert got.stride() == fn(a).stride()
    flow = torch.randn_like(got)
    got.backward(flow)
    want.backward(flow.double())
    for one, other in ((got, want), (mine.grad, exact.grad)):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)
    assert called(graphs) <= calls


def cases() -> list[tuple[int, str, str, int, bool | None]]:
    """float64 of 127 x 127 is slow, and dimensions are resized one after the other: 1-D covers this size."""
    sizes = {1: [3, 7, 127], 2: [3, 7], 3: [3, 7]}
    nearest = [(dims, *case, None) for dims in sizes for case in covering(NEAREST[dims], [*BY], sizes[dims])]
    return nearest + [(dims, *case) for dims in sizes for case in covering(SMOOTH[dims], [*BY], sizes[dims], ALIGNS)]


@pytest.mark.parametrize(("dims", "mode", "how", "size", "align"), cases())
def test_values_and_gradients(dims: int, mode: str, how: str, size: int, align: bool | None) -> None:
    shape = [2, 3, *[size] * (dims - 1), size + (dims > 1)]
    hold(resized(mode, align, BY[how]), torch.randn(shape), 2e-4 if size == 127 else 2e-5)


@pytest.mark.parametrize(
    ("how", "mode", "align", "size"),
    [
        *covering([how for how in [*BY, "two fifths"] if not how.startswith("to ")], SMOOTH[2], ALIGNS, [3, 127]),
        *covering(["to five", "to one", "to thirty"], SMOOTH[2], ALIGNS, [3, 127, 1]),
    ],
)
def test_antialiased(how: str, mode: str, align: bool, size: int) -> None:
    """Long windows are reductions: 127 elements for a single result, and one element for thirty results. Eager is wrong for
    several rows of one element each."""
    by = BY.get(how, {"size": 30} if how == "to thirty" else {"scale_factor": 0.4})
    hold(resized(mode, align, {**by, "antialias": True}), torch.randn(2, 3, size, 5 if size == 1 else 9), 2e-5)


def test_long_sums() -> None:
    """Gradients of an element with many copies are reductions; long windows with weights are left to ATen."""
    hold(resized("nearest", None, {"scale_factor": (9, 20)}), torch.randn(2, 3, 5, 4), 1e-5)
    hold(
        resized("bilinear", False, {"scale_factor": 9}),
        torch.randn(2, 3, 5, 4),
        1e-5,
        {"aten.upsample_bilinear2d_backward.default"},
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_half_types_sum_in_f32(mode: str) -> None:
    for how in ("twice", "1.7 times"):
        hold(resized(mode, None, BY[how]), torch.randn(2, 3, 5, 7, dtype=BF16), 2e-2)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_one_element_and_channels_last(mode: str) -> None:
    hold(resized(mode, None, BY["twice"]), torch.randn(2, 3, 1, 1), 1e-5)
    hold(resized(mode, None, BY["1.7 times"]), torch.randn(2, 20, 5, 7).contiguous(memory_format=torch.channels_last), 1e-5)


def test_a_result_is_no_view_of_its_input() -> None:
    """Reading one element at every position must not give a view."""
    a = torch.randn(2, 3, 1)
    got, _ = trained(resized("nearest", None, {"size": 4}), a)
    assert got.untyped_storage().data_ptr() != a.untyped_storage().data_ptr()


def test_places_are_those_of_eager_at_many_sizes() -> None:
    """Which neighbor is nearest depends on whether positions are computed in f32 or in f64."""
    for mode in ("nearest", "nearest-exact"):
        for n, out in ((10, 3), (100, 333), (1000, 377), (49, 1000), (1000, 1000), (7, 21)):
            a = torch.arange(float(n)).view(1, 1, n)
            got, _ = trained(resized(mode, None, {"size": out}), a)
            assert got.tolist() == F.interpolate(a, size=out, mode=mode).tolist()


def test_torch_is_left_as_it_was() -> None:
    before = {op: dict(op.py_kernels) for op in (*RESIZING, *ABOVE_AUTOGRAD)}
    with kept_composite(*before), kept_composite(*before):
        pass
    assert {op: dict(op.py_kernels) for op in before} == before
    assert any(torch._C.DispatchKey.Autograd in kernels for kernels in before.values())
    assert {op for op in RESIZING if _is_preservable_cia_op(op)} <= _collect_all_valid_cia_ops()


POOLS: dict[str, tuple[Fn, tuple[int, ...]]] = {
    "max, 3-d": (lambda a: F.max_pool3d(a, 2), (2, 3, 4, 6, 5)),
    "max, 3-d, padded": (lambda a: F.max_pool3d(a, 3, 2, 1), (2, 3, 5, 7, 6)),
    "max, 3-d, dilated, ceil": (lambda a: F.max_pool3d(a, (1, 2, 3), 2, (0, 1, 1), (1, 2, 1), True), (2, 3, 5, 7, 6)),
    "max, 2-d of one plane": (lambda a: F.max_pool2d(a, 2), (3, 4, 6)),
    "average, 3-d": (lambda a: F.avg_pool3d(a, 2, 1), (2, 3, 4, 6, 5)),
    "average, 3-d, ragged": (lambda a: F.avg_pool3d(a, 3, 2, 1, True, False), (2, 3, 5, 7, 6)),
    "average, 3-d, divided": (lambda a: F.avg_pool3d(a, 2, divisor_override=3), (2, 3, 4, 6, 5)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    fn, shape = POOLS[name]
    kept = {
        "aten.avg_pool3d_backward.default",
        "aten.max_pool3d_with_indices_backward.default",
        "aten.max_pool2d_with_indices_backward.default",
    }
    hold(fn, torch.randn(shape), 1e-5, kept)
    with torch.no_grad():
        _, graphs = trained(fn, torch.randn(shape))
    assert called(graphs) == set()


def test_places_of_maxima_in_three_dimensions() -> None:
    a = torch.randn(2, 3, 7, 6, 8)
    a[0, 0, 2:5, 2:5, 2:5] = 7.0
    a[1, 1, 3, 3, 3] = float("nan")
    a[1, 2] = float("-inf")
    for kwargs in ({"stride": 2, "padding": 1}, {"stride": 3}, {"stride": 1, "dilation": 2}):
        with torch.no_grad():
            got, _ = trained(lambda t, kwargs=kwargs: F.max_pool3d(t, 3, return_indices=True, **kwargs), a)
        for mine, eager in zip(got, F.max_pool3d(a, 3, return_indices=True, **kwargs), strict=True):
            torch.testing.assert_close(mine, eager, rtol=0, atol=0, equal_nan=True)


KERNELS: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "bilinear": (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), [x(2, 3, 9, 17, dtype=BF16)]),
    "bicubic": (lambda a: F.interpolate(a, size=(7, 12), mode="bicubic"), [x(2, 3, 9, 17)]),
    "nearest": (lambda a: F.interpolate(a, scale_factor=2) + 1, [x(2, 3, 9, 17)]),
    "nearest, 1.7 times": (lambda a: F.interpolate(a, scale_factor=1.7), [x(2, 3, 9, 17)]),
    "gradient of nearest": (
        lambda g: aten.upsample_nearest2d_backward(g, [18, 51], [2, 3, 9, 17], 2.0, 3.0), [x(2, 3, 18, 51)]
    ),
    "gradient of nearest, 1.7 times": (lambda g: aten.upsample_nearest1d_backward(g, [28], [2, 3, 17], 1.7), [x(2, 3, 28)]),
    "antialiased": (lambda a: F.interpolate(a, size=(5, 7), mode="bicubic", antialias=True), [x(2, 3, 19, 27)]),
    "antialiased, to one": (lambda a: F.interpolate(a, size=(1, 1), mode="bilinear", antialias=True), [x(2, 3, 19, 27)]),
    "gradient of antialiased": (
        lambda g: aten._upsample_bilinear2d_aa_backward(g, [5, 7], [2, 3, 19, 27], False), [x(2, 3, 5, 7)]
    ),
    "gradient of linear": (lambda g: aten.upsample_linear1d_backward(g, [34], [2, 3, 17], False, 2.0), [x(2, 3, 34)]),
    "gradient of bilinear": (
        lambda g: aten.upsample_bilinear2d_backward(g, [18, 34], [2, 3, 9, 17], False, 2.0, 2.0), [x(2, 3, 18, 34)]
    ),
    "padded, behind others": (
        lambda a, b: torch.cat([F.pad(F.interpolate(a, scale_factor=1.7), (1, 2, 3, 0)), b], 1) * 2, [x(2, 3, 9, 17), x(2, 2, 18, 31)]
    ),
    "bilinear, channels last": (
        lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"),
        [x(2, 24, 9, 7, dtype=BF16).contiguous(memory_format=torch.channels_last)],
    ),
    "places in a list": (lambda a: a[:, [0, 2, -1, 1]] * a[[1, 0, 1, 1, 4], :4], [x(5, 9)]),
    "gradient of bicubic in f64": (
        lambda g: aten.upsample_bicubic2d_backward(g, [9, 8], [2, 3, 5, 4], True), [x(2, 3, 9, 8, dtype=torch.float64)]
    ),
    "max pooling in 3-d, reduced": (lambda a: F.max_pool3d(a, 2).logsumexp(1), [x(2, 5, 4, 6, 10)]),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    fn, inputs = KERNELS[name]
    run(fn, *inputs)


def test_rows_are_transposed_as_they_are_gathered() -> None:
    """Elements adjacent in an image's rows become adjacent along channels in tiles."""

    def laid_out(a: Tensor) -> Tensor:
        grown = F.interpolate(a, size=(21, a.shape[3]), mode="bilinear")
        return (grown * 2).contiguous(memory_format=torch.channels_last)

    run(laid_out, x(1, 70, 7, 33))
    (found,) = run(laid_out, x(2, 64, 16, 64)).results
    image = max(found.loads, key=lambda t: t.bytes)
    assert image.sectors < 4 * image.distinct_sectors


def test_known_places_are_read_without_checks() -> None:
    """Each program of the kernel has no branches: indices into tables have 32 bits, and no load depends on a check."""
    (found,) = run(lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), x(1, 2, 16, 64)).results
    assert all(set(t.accesses) == {4} for t in found.loads[:-1])


def test_a_sum_of_pooled_images_fills_the_chip() -> None:
    for pool in (F.avg_pool2d, F.max_pool2d):
        first, last = run(lambda a, pool=pool: torch.sigmoid(pool(a, 2)).sum((1, 2, 3)), x(33, 16, 45, 50)).results
        assert first.ctas >= 8 * 33 and last.ctas <= 33


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_training_through_torch_compile(mode: str) -> None:
    def fn(a: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(F.interpolate(a, scale_factor=2, mode=mode), w, padding=1).relu().mean((2, 3))

    inputs = torch.randn(2, 4, 5, 7), torch.randn(6, 4, 3, 3)
    mine, theirs = ([t.clone().requires_grad_() for t in inputs] for _ in range(2))
    torch._dynamo.reset()
    torch.compile(fn, backend="lamina")(*mine).square().sum().backward()
    fn(*theirs).square().sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_inference_on_a_cpu() -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            two = [F.interpolate(a, scale_factor=s, mode=m) for s, m in ((2, "nearest"), (1.7, "nearest-exact"), (2, "bilinear"))]
            return (*two, F.interpolate(b, size=(3, 9, 4), mode="trilinear"), F.max_pool3d(b, 2).logsumexp(1))

    inputs = torch.randn(2, 3, 7, 5).transpose(2, 3), torch.randn(2, 3, 4, 6, 5)
    compiled = lamina.compile(Model().eval(), inputs)
    with torch.no_grad():
        for mine, eager in zip(compiled(*inputs), Model()(*inputs), strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-5, atol=1e-5)
            assert mine.stride() == eager.stride()


def _last(*shape: int) -> Tensor:
    return x(*shape, dtype=BF16).to(memory_format=torch.channels_last)


def test_one_part_of_a_concatenation_in_each_program() -> None:
    """A program lies within one part and reads only that part's operands, in whole accesses without masks."""

    def joined(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        up = [F.interpolate(v, scale_factor=k, mode="bilinear") for v, k in ((a, 4), (b, 2))]
        return torch.cat([*up, c], 1).relu()

    (found,) = run(joined, _last(2, 256, 2, 2), _last(2, 512, 4, 4), _last(2, 256, 8, 8)).results
    assert sum(t.accesses[16] for t in found.loads) == 2 * 8 * 8 * (4 * 256 + 4 * 512 + 256) // 8


def test_image_is_laid_out_before_it_is_gathered_from() -> None:
    """The library needs channels last: one kernel puts the small image in this layout, and the kernel that gathers reads whole
    accesses."""

    def convolved(a: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(F.interpolate(a, scale_factor=2, mode="bilinear"), w)

    transposed, gathered, _ = run(convolved, x(2, 64, 32, 16, dtype=BF16), x(64, 64, 1, 1, dtype=BF16)).results
    assert transposed.loads[0].accesses == {16: 2 * 64 * 32 * 16 // 8}
    assert gathered.loads[0].accesses == {16: 4 * 2 * 64 * 64 * 32 // 8}


def test_parts_are_laid_out_before_they_are_concatenated() -> None:
    inputs = x(2, 32, 32, 16, dtype=BF16), x(2, 64, 32, 16, dtype=BF16), x(32, 96, 3, 3, dtype=BF16)
    *_, joined, _ = run(lambda a, b, w: F.conv2d(torch.cat([a.relu(), b], 1), w), *inputs).results
    assert {n for t in joined.loads for n in t.accesses} == {16}


def test_what_is_small_is_stored_before_it_is_interpolated() -> None:
    """Activation and bias are computed once per pixel of the small image, in its own dtype."""

    def decoded(a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        small = ((a + b.view(-1, 1, 1)).relu() * b.view(-1, 1, 1) + 1).clamp(max=3)
        return F.conv2d(F.interpolate(small, scale_factor=2, mode="bilinear"), w)

    found = run(decoded, _last(2, 32, 32, 16), x(32, dtype=BF16), x(32, 32, 1, 1, dtype=BF16)).results
    assert sum(n for t in found[0].stores for n in t.accesses.values()) <= 2 * 32 * 32 * 16 // 8 + 32 * 32

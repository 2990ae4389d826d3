"""Tests every decomposition against float64, and that only ops that lower and library calls remain."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor, fx

from lamina.frontend.decompositions.half import HALF
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx import support

Case = tuple[Callable[..., Any], list[Tensor]]


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def positive(*shape: int) -> Tensor:
    return torch.rand(*shape) + 0.1


def probability(*shape: int) -> Tensor:
    return torch.rand(*shape) * 0.8 + 0.1


ACTIVATIONS: dict[str, Case] = {
    "gelu": (F.gelu, [x(3, 17)]),
    "gelu tanh": (lambda a: F.gelu(a, approximate="tanh"), [x(3, 17)]),
    "silu": (F.silu, [x(3, 17)]),
    "mish": (F.mish, [x(3, 17)]),
    "softplus": (lambda a: F.softplus(a * 20), [x(3, 17)]),
    "logsigmoid": (F.logsigmoid, [x(3, 17)]),
    "hardswish": (lambda a: F.hardswish(a * 4), [x(3, 17)]),
    "hardsigmoid": (lambda a: F.hardsigmoid(a * 4), [x(3, 17)]),
    "hardtanh": (lambda a: F.hardtanh(a, -0.5, 0.7), [x(3, 17)]),
    "elu": (lambda a: F.elu(a, 1.3), [x(3, 17)]),
    "celu": (lambda a: F.celu(a, 1.3), [x(3, 17)]),
    "selu": (F.selu, [x(3, 17)]),
    "leaky relu": (lambda a: F.leaky_relu(a, 0.1), [x(3, 17)]),
    "relu6": (lambda a: F.relu6(a * 4), [x(3, 17)]),
    "tanh": (torch.tanh, [x(3, 17)]),
    "sigmoid": (torch.sigmoid, [x(3, 17)]),
    "glu": (F.glu, [x(3, 18)]),
}
NORMS: dict[str, Case] = {
    "softmax": (lambda a: torch.softmax(a, -1), [x(5, 33)]),
    "softmax over the first": (lambda a: torch.softmax(a, 0), [x(5, 33)]),
    "log softmax": (lambda a: torch.log_softmax(a, 1), [x(5, 33, 2)]),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (7, 9), w, b), [x(3, 7, 9), x(7, 9), x(7, 9)]),
    "layer norm far from zero": (lambda a: F.layer_norm(a + 1000.0, (63,)), [x(5, 63)]),
    "rms norm": (lambda a, w: F.rms_norm(a, (33,), w, 1e-6), [x(5, 33), x(33)]),
    "group norm": (lambda a, w, b: F.group_norm(a, 3, w, b), [x(2, 6, 5, 3), x(6), x(6)]),
    "weight norm": (torch._weight_norm, [x(5, 3, 7), positive(5, 1, 1)]),
    "weight norm of the last": (lambda v, g: torch._weight_norm(v, g, 2), [x(5, 3, 7), positive(1, 1, 7)]),
    "instance norm": (lambda a: F.instance_norm(a), [x(2, 3, 7, 5)]),
    "batch norm": (lambda a, w, b: F.batch_norm(a, None, None, w, b, True), [x(4, 3, 5, 5), x(3), x(3)]),
    "batch norm, running": (
        lambda a, m, v, w, b: F.batch_norm(a, m, v, w, b, False),
        [x(4, 3, 5, 5), x(3), positive(3), x(3), x(3)],
    ),
}
LOSSES: dict[str, Case] = {
    "mse": (F.mse_loss, [x(5, 7), x(5, 7)]),
    "mse sum": (lambda a, b: F.mse_loss(a, b, reduction="sum"), [x(5, 7), x(5, 7)]),
    "l1": (F.l1_loss, [x(5, 7), x(5, 7)]),
    "smooth l1": (lambda a, b: F.smooth_l1_loss(a, b, beta=0.5), [x(5, 7), x(5, 7)]),
    "huber": (lambda a, b: F.huber_loss(a, b, delta=0.7), [x(5, 7), x(5, 7)]),
    "bce": (F.binary_cross_entropy, [probability(5, 7), probability(5, 7)]),
    "bce logits": (F.binary_cross_entropy_with_logits, [x(5, 7), probability(5, 7)]),
    "kl": (lambda a, b: F.kl_div(torch.log_softmax(a, 1), torch.softmax(b, 1), reduction="batchmean"), [x(5, 7), x(5, 7)]),
}
REDUCTIONS: dict[str, Case] = {
    "sum": (lambda a: a.sum((0, 2)), [x(3, 5, 7)]),
    "sum of all": (lambda a: a.sum(), [x(3, 5)]),
    "mean": (lambda a: a.mean(1, keepdim=True), [x(3, 5, 7)]),
    "var": (lambda a: a.var(1), [x(3, 35)]),
    "var far from zero": (lambda a: (a + 100.0).var(1, unbiased=False), [x(3, 35)]),
    "std": (lambda a: a.std((0, 1)), [x(3, 35)]),
    "var and mean": (lambda a: torch.var_mean(a, 1, keepdim=True), [x(3, 35)]),
    "logsumexp": (lambda a: torch.logsumexp(a * 30, 1), [x(3, 35)]),
    "norm 2": (lambda a: torch.linalg.vector_norm(a, 2, 1), [x(3, 35)]),
    "norm 1": (lambda a: torch.linalg.vector_norm(a, 1), [x(3, 35)]),
    "norm 3": (lambda a: torch.linalg.vector_norm(a, 3, 0), [x(3, 35)]),
    "norm inf": (lambda a: torch.linalg.vector_norm(a, float("inf"), 1), [x(3, 35)]),
    "max": (lambda a: a.max(), [x(3, 35)]),
    "max along": (lambda a: a.max(1).values, [x(3, 35)]),
    "amin": (lambda a: a.amin((0, 1)), [x(3, 35)]),
    "cumsum": (lambda a: a.cumsum(1), [x(3, 35)]),
}
POINTWISE: dict[str, Case] = {
    "scalars": (lambda a: (a * 0.3 + 1.7) / 3.1 - 0.7, [x(3, 17)]),
    "alpha": (lambda a, b: torch.add(a, b, alpha=0.3), [x(3, 17), x(3, 17)]),
    "rsub": (lambda a: 0.3 - a, [x(3, 17)]),
    "pow": (lambda a: a.abs() ** 1.3 + a**2 + a**3, [x(3, 17)]),
    "clamp": (lambda a: a.clamp(-0.3, 0.7) + a.clamp(min=0.1) + a.clamp_max(0.2), [x(3, 17)]),
    "clamp by tensors": (lambda a, b: a.clamp(b, b + 1), [x(3, 17), x(17)]),
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.3), [x(3, 17), x(3, 17), x(17)]),
    "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.3), [x(3, 17), x(3, 17), positive(17)]),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3) + torch.lerp(a, b, 0.8), [x(3, 17), x(3, 17)]),
    "lerp by a tensor": (lambda a, b, w: torch.lerp(a, b, w), [x(3, 17), x(3, 17), probability(17)]),
    "masked fill": (lambda a: a.masked_fill(a > 0, 0.3), [x(3, 17)]),
    "where": (lambda a: torch.where(a > 0, a, -1.3), [x(3, 17)]),
    "tril": (lambda a: torch.tril(a) + torch.triu(a, 2), [x(17, 17)]),
}
DATA: dict[str, Case] = {
    "split": (lambda a: torch.cat([p * 2 for p in a.split(4, 1)], 1), [x(3, 10)]),
    "chunk": (lambda a: a.chunk(3, 1)[2] + 1, [x(3, 10)]),
    "stack": (lambda a, b: torch.stack([a, b], 1), [x(3, 5), x(3, 5)]),
    "unbind": (lambda a: a.unbind(1)[2] * 2, [x(3, 5)]),
    "roll": (lambda a: a.roll((2, -1), (0, 1)), [x(5, 7)]),
    "flip": (lambda a: a.flip(1), [x(5, 7)]),
    "repeat": (lambda a: a.repeat(2, 3), [x(3, 5)]),
    "slices": (lambda a: a[:, 1:8:3] + a[-1, :3], [x(3, 10)]),
    "a scatter of every third": (lambda a, b: torch.slice_scatter(a, b, 1, 2, 9, 3), [x(3, 10), x(3, 3)]),
    "gradients of every second": (
        lambda a, b: torch.ops.aten.slice_backward(a, [3, 10], 1, 0, 10, 2) + torch.ops.aten.slice_backward(b, [3, 10], 1, 3, 9, 2),
        [x(3, 5), x(3, 3)],
    ),
    "pad": (lambda a: F.pad(a, (1, 2, 3, 0), value=0.3), [x(3, 5)]),
    "reflected borders": (lambda a: F.pad(a, (2, 3, 1, 0), "reflect"), [x(2, 3, 5, 7)]),
    "repeated borders": (lambda a: F.pad(a, (2, 1, 0, 3), "replicate"), [x(2, 3, 5, 7)]),
    "reflected and cut borders": (lambda a: F.pad(a, (2, -3, -1, 4), "reflect"), [x(2, 3, 5, 7)]),
    "repeated and cut borders": (lambda a: F.pad(a, (-2, 9, 0, -3), "replicate"), [x(2, 3, 5, 7)]),
    "patches": (lambda a: F.fold(F.unfold(a, 3, padding=1), (5, 7), 3, padding=1), [x(2, 3, 5, 7)]),
    "strided patches": (lambda a: F.fold(F.unfold(a, 4, 1, (3, 5), 3), (4, 7), 4, 1, (3, 5), 3), [x(3, 4, 7)]),
    "dilated patches": (lambda a: F.fold(F.unfold(a, 2, 2, 1, 3), (6, 7), 2, 2, 1, 3), [x(2, 3, 6, 7)]),
    "max pool": (lambda a: F.max_pool2d(a, 3, 2, 1), [x(2, 3, 11, 9)]),
    "max pool, dilated, ceil": (lambda a: F.max_pool2d(a, (2, 3), 2, (0, 1), (2, 1), ceil_mode=True), [x(1, 3, 11, 9)]),
    "average pool": (lambda a: F.avg_pool2d(a, 3, 2, 1), [x(2, 3, 11, 9)]),
    "average pool, ragged": (lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True, count_include_pad=False), [x(2, 3, 10, 8)]),
    "adaptive average pool": (lambda a: F.adaptive_avg_pool2d(a, 1) + F.adaptive_avg_pool2d(a, (2, 3)).mean(), [x(2, 3, 8, 9)]),
    "upsample": (lambda a: F.interpolate(a, scale_factor=2, mode="nearest"), [x(2, 3, 5, 7)]),
    "pixel shuffle": (lambda a: F.pixel_shuffle(a, 2), [x(2, 12, 5, 7)]),
}
FLOATS = ACTIVATIONS | NORMS | LOSSES | REDUCTIONS | POINTWISE | DATA


def graphs(fn: Callable[..., Any], inputs: list[Tensor]) -> list[fx.GraphModule]:
    """The decomposed graphs of a call: one without gradients; forward and backward where an input requires one (and it is run)."""
    found: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: Any) -> Any:
        found.append(gm)
        return make_boxed_func(gm.forward)

    outputs = aot_function(fn, fw_compiler=keep, bw_compiler=keep, decompositions=table())(*inputs)
    first = outputs if isinstance(outputs, Tensor) else outputs[0]
    if first.requires_grad:
        first.backward(torch.ones_like(first))
    return found


def fallbacks(gm: fx.GraphModule) -> set[str]:
    return {str(n.target) for n in gm.graph.nodes if n.op == "call_function" and support.reason(n) == "fallback"}


def flat(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_against_float64(name: str, dtype: torch.dtype) -> None:
    fn, given = FLOATS[name]
    inputs = [t.to(dtype) for t in given]
    with torch.no_grad():
        (gm,) = graphs(fn, inputs)
        got = flat(gm(*inputs))
        want = flat(fn(*[t.double() for t in inputs]))
        eager = flat(fn(*inputs))
    assert fallbacks(gm) == set()
    for g, w, e in zip(got, want, eager, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape
        scale = w.abs().max().clamp(min=1e-3)
        ulp = torch.finfo(dtype).eps if dtype in HALF else 256 * torch.finfo(dtype).eps
        # One rounding of the result is what a half type computed in f32 costs; ops in a row round in between, as eager does.
        assert ((g.double() - w).abs().max() / scale) <= max(4 * ulp, 2 * ((e.double() - w).abs().max() / scale))


# Several ops in a row round in between, and a far mean or slope magnifies the rounding of the input.
_SEVERAL = {"glu", "kl", "layer norm far from zero", "softplus", "hardswish", "hardsigmoid"}
SINGLE = [n for n in (*ACTIVATIONS, *NORMS, *LOSSES) if n not in _SEVERAL]
# Where the gradient is not unique, not defined or ill-conditioned.
_NO_GRADIENT = {"amin", "max", "max along", "norm inf", "flip", "batch norm, running", "layer norm far from zero"}


@pytest.mark.parametrize("name", SINGLE)
def test_half_types_compute_in_f32(name: str) -> None:
    """One op on bfloat16: the error is that of rounding its result, not of computing in bfloat16."""
    fn, given = FLOATS[name]
    inputs = [t.bfloat16() for t in given]
    with torch.no_grad():
        (gm,) = graphs(fn, inputs)
        got, want = flat(gm(*inputs))[0], flat(fn(*[t.double() for t in inputs]))[0]
    assert ((got.double() - want).abs() <= 0.0045 * want.abs() + 1e-5).all()


@pytest.mark.parametrize("name", [n for n in FLOATS if n not in _NO_GRADIENT])
def test_gradients_against_float64(name: str) -> None:
    fn, given = FLOATS[name]
    inputs = [t.clone().requires_grad_() for t in given]
    graphs(fn, inputs)
    exact = [t.double().detach().requires_grad_() for t in given]
    first = flat(fn(*exact))[0]
    first.backward(torch.ones_like(first))
    for got, want in zip(inputs, exact, strict=True):
        if want.grad is None:
            assert got.grad is None or not got.grad.any()
            continue
        torch.testing.assert_close(got.grad.double(), want.grad, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 7, 3, 4)])
def test_cross_entropy(shape: tuple[int, ...], weighted: bool, reduction: str) -> None:
    target = torch.randint(0, 7, shape[:1] + shape[2:]) if len(shape) > 1 else torch.tensor(3)
    if target.dim() > 0:
        target.view(-1)[1] = -100
    weight = [positive(7)] if weighted else []

    def fn(logits: Tensor, target: Tensor, *weight: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, *weight, reduction=reduction)

    logits = x(*shape).requires_grad_()
    found = graphs(fn, [logits, target, *weight])
    exact = logits.detach().double().requires_grad_()
    want = fn(exact, target, *[w.double() for w in weight])
    want.backward(torch.ones_like(want))
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-5, atol=1e-6)
    assert all(fallbacks(gm) == set() for gm in found)


@pytest.mark.parametrize("fn", [torch.argmax, torch.argmin, lambda a, d: a.max(d), lambda a, d: a.min(d)])
def test_first_index_of_an_extreme(fn: Callable[..., Any]) -> None:
    a = torch.tensor([[1.0, 3.0, 3.0, -2.0, -2.0], [0.0, float("nan"), 9.0, float("nan"), -9.0], [float("-inf")] * 5])
    for inputs in (a, torch.randint(-3, 3, (6, 11))):
        (gm,) = graphs(lambda t: fn(t, 1), [inputs])
        for got, want in zip(flat(gm(inputs)), flat(fn(inputs, 1)), strict=True):
            torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)
        assert fallbacks(gm) == set()


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.float32])
def test_division_rounds_as_in_eager(mode: str, dtype: torch.dtype) -> None:
    a = torch.randint(-100, 100, (7, 9)).to(dtype)
    b = torch.tensor([-7, -3, -1, 1, 2, 5, 9, 50, 100]).to(dtype)
    (gm,) = graphs(lambda p, q: torch.div(p, q, rounding_mode=mode), [a, b])
    torch.testing.assert_close(flat(gm(a, b))[0], torch.div(a, b, rounding_mode=mode), rtol=0, atol=0)
    # An integer divisor may be zero, which eager's op alone can report.
    assert fallbacks(gm) == (set() if dtype.is_floating_point else {"aten.div.Tensor_mode"})
    (gm,) = graphs(lambda p: torch.div(p, -7, rounding_mode=mode), [a])
    torch.testing.assert_close(flat(gm(a))[0], torch.div(a, -7, rounding_mode=mode), rtol=0, atol=0)
    assert fallbacks(gm) == set()


@pytest.mark.parametrize("fn", [torch.fmod, torch.remainder])
def test_remainders_are_exact(fn: Callable[..., Tensor]) -> None:
    a = torch.tensor([1e10, -1e10, 7.5, -7.5, 3.0, 0.3, float("inf"), 5.0, float("nan")])
    for b in (3.0, -0.7):
        (gm,) = graphs(lambda p, b=b: fn(p, b), [a])
        torch.testing.assert_close(flat(gm(a))[0], fn(a, b), rtol=0, atol=0, equal_nan=True)
    n = torch.arange(-9, 9)
    (gm,) = graphs(lambda p: fn(p, 4), [n])
    torch.testing.assert_close(flat(gm(n))[0], fn(n, 4), rtol=0, atol=0)


def test_large_integers_divide_exactly() -> None:
    a = torch.tensor([2**62 + 1, -(2**62) - 1, 2**53 + 1])
    (gm,) = graphs(lambda p: p // 3, [a])
    assert flat(gm(a))[0].tolist() == (a // 3).tolist()
    assert not any(n.meta["val"].dtype.is_floating_point for n in gm.graph.nodes if n.op == "call_function")


def test_max_pool_reports_the_places_of_its_maxima() -> None:
    a = torch.randn(2, 3, 19, 18)
    a[0, 0, 2:5, 2:5] = 7.0
    a[1, 1, 3, 3] = a[1, 1, 3, 5] = a[1, 1, 7, 2] = float("nan")
    a[1, 2] = float("-inf")
    for kernel, *more in (
        (3, 2, 1), (3, 3), (3, 1, 0, 2),
        (9, 1, 4), ((11, 7), (3, 2), (2, 3), (1, 2), True),  # of more than 64 taps: one dimension after the other
    ):  # fmt: skip

        def fn(t: Tensor, kernel: Any = kernel, more: Sequence[Any] = more) -> Any:
            return F.max_pool2d(t, kernel, *more, return_indices=True)

        (gm,) = graphs(fn, [a])
        assert not any("max_pool" in str(n.target) for n in gm.graph.nodes)
        for got, want in zip(flat(gm(a)), flat(fn(a)), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_running_statistics() -> None:
    a, mean, var = x(4, 3, 5) + 10, x(3), positive(3)

    def fn(a: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m, v = m.clone(), v.clone()
        return F.batch_norm(a, m, v, None, None, True, 0.3), m, v

    (gm,) = graphs(fn, [a, mean, var])
    for got, want in zip(gm(a, mean, var), fn(a.double(), mean.double(), var.double()), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fn", [torch.any, torch.all])
def test_any_and_all(fn: Callable[..., Any]) -> None:
    for a in (torch.rand(5, 7) > 0.8, torch.randint(0, 2, (5, 7)), torch.tensor([[float("nan"), 0.0], [0.0, 0.0]])):
        for dim in (None, 0, 1):
            (gm,) = graphs(lambda t, dim=dim: fn(t) if dim is None else fn(t, dim), [a])
            want = fn(a) if dim is None else fn(a, dim)
            assert flat(gm(a))[0].tolist() == want.tolist()
            assert fallbacks(gm) == set()


def test_dropout_in_evaluation_draws_nothing() -> None:
    (gm,) = graphs(lambda a: F.dropout(a, 0.5, training=False) + 1, [x(3)])
    assert not any(support.reason(n) or "random" in str(n.target) for n in gm.graph.nodes if n.op == "call_function")


OURS = sorted((op for op, fn in table().items() if fn.__module__.startswith("lamina.")), key=str)  # torch's table has no order


@pytest.mark.parametrize("op", OURS, ids=str)
def test_arguments_are_those_of_the_op(op: torch._ops.OpOverload) -> None:
    """Tracing leaves out what has a default."""
    signature = inspect.signature(table()[op])
    given = op._schema.arguments
    for arguments in (given, [a for a in given if not a.has_default_value()]):
        named = {a.name: None for a in arguments if a.kwarg_only}
        signature.bind(*[None for a in arguments if not a.kwarg_only], **named)

"""Tests regions of forward under another grad mode or autocast, with custom functions inside: values and gradients are eager's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ahead_of_time import ahead, x
from entry_points import BACKEND, NO_CACHE, same
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.utils.checkpoint import checkpoint

import lamina
from lamina.frontend.capture.trace import trace


def autocast(**options: Any) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


class Scaled(torch.autograd.Function):
    """A function whose backward is not the derivative of its forward, which contains another region."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, scale: float) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(a)
        ctx.scale = scale
        with torch.no_grad(), autocast(enabled=False):
            largest = a.abs().max()
        return a / largest * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        (a,) = ctx.saved_tensors
        return grad * ctx.scale * a * 7, None


class Product(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        a, b = ctx.saved_tensors
        return grad @ b.t() * 2, a.t() @ grad


class InF32(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, a: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(a)
        return a @ a

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (a,) = ctx.saved_tensors
        return grad * a * 5


class Several(torch.autograd.Function):
    """A function with two results with gradients and one without."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        larger = a > b
        ctx.mark_non_differentiable(larger)
        return a * b, larger, a * 3

    @staticmethod
    def backward(ctx: Any, one: Tensor, _: Tensor, two: Tensor) -> Any:  # type: ignore[override]
        return one + 3 * two, (one * 2 if ctx.needs_input_grad[1] else None)


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:  # type: ignore[override]
        ctx.mark_dirty(a.mul_(2))
        return a

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad * 7


def casting(a: Tensor, b: Tensor) -> Tensor:
    with autocast():
        y = Scaled.apply(a, 3.0) @ b
    return y.float().sin()


def no_grad_inside_autocast(a: Tensor, b: Tensor) -> Tensor:
    with autocast():
        y = a @ b
        with torch.no_grad():
            z = y * 3
    return y * z


def own_casts(a: Tensor, b: Tensor) -> Tensor:
    with autocast():
        return Product.apply(a, b) @ b + InF32.apply(a @ b)


def nested(a: Tensor, b: Tensor) -> Tensor:
    with autocast():
        y = a @ b
        with torch.no_grad():
            z = y.abs().max()
            with torch.enable_grad():
                w = Scaled.apply(a @ b, 2.0)
    return y + z + w


def nested_the_other_way(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad():
        s = Scaled.apply(a, 4.0)
        with torch.enable_grad(), autocast():
            one, larger, two = Several.apply(a, b)
            with autocast(enabled=False):
                c = Scaled.apply(a, 2.0) @ b
    return one.where(larger, two) + c + s


def in_place(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad(), torch.enable_grad():
        y = InPlace.apply(a * 2)
    with autocast():
        z = InPlace.apply(a @ b)
    return y + z


def after_a_region_of_its_own(a: Tensor, b: Tensor) -> Tensor:
    return Scaled.apply(a, 2.0) * b + a.sin()


def checkpointed(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad(), torch.enable_grad():
        y = checkpoint(lambda t: Scaled.apply(t @ b, 2.0), a, use_reentrant=False)
    with autocast():
        return y @ checkpoint(lambda t: Scaled.apply(t @ b, 2.0), a, use_reentrant=False)


FUNCTIONS = [
    casting, no_grad_inside_autocast, own_casts, nested, nested_the_other_way, in_place, after_a_region_of_its_own, checkpointed,
]  # fmt: skip
JIT: Callable[..., Any] = lambda f, _: torch.compile(f, backend=BACKEND, options=NO_CACHE)  # noqa: E731
ENTRY_POINTS: dict[str, Callable[..., Any]] = {"aot": lambda f, args: lamina.compile(f, args, options=NO_CACHE), "jit": JIT}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_regions(function: Callable[..., Tensor], entry_point: Callable[..., Any]) -> None:
    """bf16 sums of gradients may be rounded in another order; a missing region or backward changes the first digit.

    Of the combinations of a function, of which arguments need gradients, and of the grad mode, any two come together."""
    torch._dynamo.reset()
    compiled = None
    for number, needs in enumerate(((True, True), (True, False), (False, True), (False, False))):
        values = torch.randn(5, 5), torch.randn(5, 5)
        mine, theirs = ([v.clone().requires_grad_(n) for v, n in zip(values, needs, strict=True)] for _ in range(2))
        compiled = compiled or entry_point(function, tuple(mine))
        got, want = compiled(*mine), function(*theirs)
        close(got, want)
        assert got.requires_grad == want.requires_grad
        if any(needs):
            got.float().sum().backward()
            want.float().sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                close(a.grad, b.grad)
        if (number + FUNCTIONS.index(function)) % 2 == 0:
            with torch.no_grad():
                close(compiled(*mine), function(*theirs))


def close(got: Tensor | None, want: Tensor, rounding: float = 0.02) -> None:
    """Compares within a part of the largest number: at least twice what bf16 rounded away in hundreds of draws."""
    assert got is not None
    torch.testing.assert_close(got, want, rtol=1e-5, atol=rounding * want.abs().max().item())


def _frozen_half(a: Tensor, w: Tensor) -> Tensor:
    b = a @ w
    with torch.no_grad():
        c = (b @ w).sin()
    return b * c


def _frozen_half_in_autocast(a: Tensor, w: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = _frozen_half(a, w)
        with torch.autocast("cpu", enabled=False):
            return _frozen_half(b.float(), w) + _frozen_half(a, w)


def _autocast_in_frozen_half(a: Tensor, w: Tensor) -> Tensor:
    b = a @ w
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = (b @ w).sin()
        with torch.enable_grad():
            c = c * b
    return b * c


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("model", [_frozen_half, _frozen_half_in_autocast, _autocast_in_frozen_half])
def test_grad_modes_inside_autocast(model: Callable[..., Tensor], around: bool) -> None:
    """What ran under no_grad is a constant for gradients, also inside autocast. The sines have arguments near zero, so that
    bf16's rounding errors before them do not grow."""
    a, w = (x(4, 4).mul(0.3).requires_grad_() for _ in range(2))
    compiled, weight = ahead(model, a, w), x(4, 4)
    with torch.autocast("cpu", torch.bfloat16, enabled=around):
        mine, theirs = compiled(a, w), model(a, w)
        frozen = ahead(lambda a, w: model(a, w).detach(), a, w)(a, w)
    assert mine.dtype == theirs.dtype and mine.requires_grad and not frozen.requires_grad
    found = torch.autograd.grad(mine, (a, w), weight.to(mine.dtype))
    expected = torch.autograd.grad(theirs, (a, w), weight.to(mine.dtype))
    for got, want in zip((mine, frozen, *found), (theirs, theirs.detach(), *expected), strict=True):
        close(got, want, rounding=0.05)


def test_a_buffer_assigned_after_a_region_of_another_grad_mode() -> None:
    class Assigns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(3, 4))

        def forward(self, a: Tensor) -> Tensor:
            with torch.enable_grad():
                a.cos()
            self.state = self.state + a.detach()
            return a * 2

    model, twin, a = Assigns(), Assigns(), x(3, 4)
    with torch.no_grad():
        compiled = ahead(model, a)
        for _ in range(2):
            same((compiled(a), model.state), (twin(a), twin.state))


def test_a_module_with_two_names_is_the_models_own() -> None:
    """torch.export then calls proxies of modules, which used to be taken for modules that are not part of the model."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = self.again = nn.Linear(4, 4)

        def forward(self, a: Tensor) -> Tensor:
            return self.again(self.linear(a))

    assert trace(Shared(), (x(3, 4),), {}).others == ()

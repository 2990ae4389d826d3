"""Compares gradients and training with eager, in float32 and float64, through both entry points."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, Model, same
from pairs import pairwise
from torch import Tensor, nn

from lamina import compile as lamina_compile

EntryPoint = Callable[..., Model]


@pytest.fixture(params=ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def entry_point(request: pytest.FixtureRequest) -> EntryPoint:
    chosen: EntryPoint = request.param
    return chosen


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 24), nn.Linear(24, 5)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(self.embed(ids)))).mean(1)
        return F.cross_entropy(self.down(hidden), target)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.na, self.nb = nn.BatchNorm2d(6), nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, a: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.na(self.a(a))), 2)
        h = F.relu(self.nb(self.b(h)) + h)
        return self.head(F.adaptive_avg_pool2d(h, 1).flatten(1))


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "linear": lambda: (nn.Linear(5, 3), (x(4, 5),)),
    "perceptron": lambda: (nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), (x(4, 8),)),
    "classifier": lambda: (Classifier(), (torch.randint(0, 13, (6, 7)), torch.randint(0, 5, (6,)))),
    "residual": lambda: (Residual(), (x(3, 3, 8, 8),)),
    "attention": lambda: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (x(2, 5, 16),)),
    "recurrent": lambda: (nn.GRUCell(4, 6), (x(5, 4),)),
}


@pytest.mark.parametrize(
    ("name", "entry_point", "dtype"), pairwise([*MODELS], [*ENTRY_POINTS.values()], [torch.float32, torch.float64])
)
def test_gradients(name: str, entry_point: EntryPoint, dtype: torch.dtype) -> None:
    model, args = MODELS[name]()
    model = model.to(dtype).train()
    exact, twin = copy.deepcopy(model).double(), copy.deepcopy(model)
    while not _is_smooth(exact, args):
        args = MODELS[name]()[1]
    args = tuple(a.to(dtype) if a.is_floating_point() else a for a in args)
    mine = tuple(a.clone().requires_grad_(a.is_floating_point()) for a in args)
    truth = tuple(a.double().requires_grad_() if a.is_floating_point() else a for a in args)
    compiled = entry_point(twin, mine)
    got, want = first(compiled(*mine)), first(exact(*truth))
    seed = torch.randn(want.shape, dtype=torch.float64)
    got.backward(seed.to(dtype))
    want.backward(seed)
    tolerance = 2e-3 if dtype is torch.float32 else 1e-9
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
    for a, b in zip((*mine, *twin.parameters()), (*truth, *exact.parameters()), strict=True):
        if a.is_floating_point():
            torch.testing.assert_close(a.grad.double(), b.grad, rtol=tolerance, atol=tolerance)
    for a, b in zip(twin.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance)


def _is_smooth(exact: nn.Module, args: tuple[Any, ...]) -> bool:
    """Returns whether no gradient jumps within some roundings of these arguments, as relu's does, so that f32 and f64 are on the
    same side."""
    found = []
    for move in (0.0, 1e-6, -1e-6):
        model = copy.deepcopy(exact)
        for parameter in model.parameters():
            parameter.data *= 1 + move * torch.rand_like(parameter)
        given = [a.double() * (1 + move * torch.rand_like(a.double())) if a.is_floating_point() else a for a in args]
        want = first(model(*given))
        weights = torch.randn(want.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        found.append(torch.autograd.grad(want, list(model.parameters()), weights))
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for other in found[1:] for a, b in zip(other, found[0], strict=True))


def first(outputs: Any) -> Tensor:
    return outputs if isinstance(outputs, Tensor) else outputs[0]


@pytest.mark.parametrize(
    "optimizer", [lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, 0.01, eps=1e-3)]
)
def test_training_follows_eager(entry_point: EntryPoint, optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    """Rounding a gradient moves a weight by at most lr / eps times the difference: with the default eps, a gradient that cancels
    would move it by lr."""
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)).train()
    twin = copy.deepcopy(model)
    compiled = entry_point(twin, (x(6, 8),))
    pairs = [(model, optimizer(model.parameters())), (compiled, optimizer(twin.parameters()))]
    for _ in range(5):
        a, target = x(6, 8), torch.randint(0, 3, (6,))
        for run, steps in pairs:
            steps.zero_grad()
            F.cross_entropy(run(a), target).backward()
            steps.step()
    for got, want in zip(twin.state_dict().values(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    model.eval(), twin.eval()
    with torch.no_grad():
        a = x(6, 8)
        same(compiled(a), model(a), rtol=1e-3, atol=1e-4)


def test_dropout_drops_the_same_in_both_passes(entry_point: EntryPoint) -> None:
    model = nn.Dropout(0.5).train()
    a = torch.ones(200, requires_grad=True)
    got = entry_point(model, (a,))(a)
    got.sum().backward()
    torch.testing.assert_close(a.grad, got.detach())
    assert 20 < int((got == 0).sum()) < 180


def test_gradients_through_a_changed_buffer_and_an_alias(entry_point: EntryPoint) -> None:
    def fn(a: Tensor, b: Tensor) -> Any:
        c = a * b
        return c, c.t(), a.view(-1), b.detach() + 1

    def grads(run: Model) -> list[Tensor]:
        a, b = (torch.arange(12.0).view(3, 4) / 7).requires_grad_(), torch.full((3, 4), 0.3, requires_grad=True)
        outputs = run(a, b)
        (outputs[0].sum() + (outputs[1] ** 2).sum() + outputs[2].sum() * 3 + outputs[3].sum()).backward()
        return [a.grad, b.grad]

    sample = (x(3, 4).requires_grad_(), x(3, 4).requires_grad_())
    same(grads(entry_point(fn, sample)), grads(fn))


def test_the_need_of_gradients_may_change() -> None:
    model = nn.Linear(4, 3)
    compiled = lamina_compile(model, (x(2, 4),), options=NO_CACHE)
    a = x(2, 4)
    assert compiled(a).requires_grad
    with torch.no_grad():
        assert not compiled(a).requires_grad
    model.requires_grad_(False)
    assert not compiled(a).requires_grad
    b = a.clone().requires_grad_()
    compiled(b).sum().backward()
    same(b.grad, model.weight.sum(0).expand(2, 4).contiguous())


@pytest.mark.filterwarnings("ignore:lamina compiles this graph once per size")
def test_training_at_several_sizes() -> None:
    torch._dynamo.reset()
    model = nn.Linear(5, 3)
    compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE)
    for n in (2, 3, 7):
        model.zero_grad()
        a = x(n, 5)
        compiled(a).square().sum().backward()
        got = model.weight.grad.clone()
        model.zero_grad()
        model(a).square().sum().backward()
        torch.testing.assert_close(got, model.weight.grad, rtol=1e-4, atol=1e-4)


class Rescaled(nn.Conv2d):
    def forward(self, image: Tensor) -> Tensor:
        assert self.bias is not None
        return F.conv2d(image, self.weight * 2, self.bias.exp())


def test_a_library_has_no_gradient_of_what_needs_none(entry_point: EntryPoint) -> None:
    """The library does not compute the gradient of a convolution's image; Lamina kernels use those of weight and bias."""
    model, image = Rescaled(3, 4, 3), x(2, 3, 8, 8)
    exact, compiled = copy.deepcopy(model).double(), entry_point(model, (image,))
    compiled(image).square().mean().backward()
    exact(image.double()).square().mean().backward()
    for a, b in zip(model.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=1e-5)


def test_a_cross_entropy_saves_its_logits_and_no_wide_copy() -> None:
    """The backward pass recomputes log_softmax from half-precision logits and two numbers per row."""
    saved: list[Tensor] = []

    def loss(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy((x @ w).float(), target)

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="lamina", options={"cache": False})
    x, w = (torch.randn(*shape).bfloat16().requires_grad_() for shape in ((64, 32), (32, 128)))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        compiled(x, w, torch.randint(128, (64,)))
    assert not [t for t in saved if t.dtype == torch.float32 and t.numel() >= 64 * 128]

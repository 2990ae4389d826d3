"""Tests layouts of saved tensors: they may differ from eager's, while results have eager's strides."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from watched import compiled_programs

from lamina.frontend.calls.saved import own_results
from lamina.frontend.compiling.worker import finish
from lamina.frontend.decompositions.eager_layout import has_strides
from lamina.frontend.fx.aliases import classify
from lamina.frontend.fx.sizes import exact_sizes, restrided


class Depthwise(nn.Module):
    """Saves results of a convolution and of a norm."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.BatchNorm2d(channels)
        self.last = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x))))


class ReturnsWhatIsSaved(Depthwise):
    def forward(self, x: Tensor) -> Any:
        hidden = torch.relu(self.norm(self.first(x)))
        return self.last(hidden), hidden, hidden.flatten(2)


class Attention(nn.Module):
    """Saves tensors that are views of others, and some twice."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(12, 36)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x).unflatten(-1, (3, 2, 6)).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Patches(nn.Module):
    """Saves a part of a tensor, and tensors in another shape than that in which they are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, stride=2)
        self.place = nn.Parameter(torch.randn(1, 10, 8))
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).reshape(x.shape[0], 8, 9).permute(0, 2, 1)
        tokens = torch.cat([torch.zeros(x.shape[0], 1, 8, dtype=x.dtype), tokens], 1) + self.place.to(x.dtype)
        normed = self.norm(tokens)
        tokens = self.attention(normed, normed, normed, need_weights=False)[0] + tokens
        result: Tensor = self.head(tokens[:, 0])
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "depthwise": (Depthwise, (2, 8, 5, 7)),
    "one channel": (lambda: Depthwise(1), (3, 1, 4, 4)),
    "one pixel": (Depthwise, (2, 8, 1, 1)),
    "ragged": (lambda: Ragged(), (2, 6, 5, 7)),
    "results too": (ReturnsWhatIsSaved, (2, 8, 6, 5)),
    "attention": (Attention, (3, 5, 12)),
    "patches": (Patches, (2, 3, 6, 6)),
}


def saved_by(model: nn.Module, x: Tensor) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    with saved_tensors_hooks(lambda t: (found.append(t.stride()), t)[1], lambda t: t):
        model(x)
    return found


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_eagers(name: str) -> None:
    make, shape = CASES[name]
    model, x = make(), torch.randn(shape, requires_grad=True)
    exact = make().double()
    exact.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="lamina", options={"cache": False})
    for scale in (1.0, 2.0):
        given = (x * scale).detach().requires_grad_()
        found, wanted, wide = (outcome(m, given) for m in (compiled, model, exact))
        for mine, eager, right in zip(found, wanted, wide, strict=True):
            assert has_strides(mine, eager)
            torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("specialize", [False, True])
def test_gradients_of_symbolic_sizes_are_eagers(name: str, specialize: bool) -> None:
    """The backward graph for all sizes takes results of programs for single sizes, and the other way round."""
    make, shape = CASES[name]
    model, exact = make(), make().double()
    exact.load_state_dict(model.state_dict())
    batch = {"specialize": [{"x": {0: 7}}]} if specialize else {}
    compiled = torch.compile(model, backend="lamina", options={"cache": False} | batch)
    for n in (5, 3, 7, 7, 5):
        given = torch.randn(n, *shape[1:])
        torch._dynamo.mark_dynamic(given, 0)
        found, wanted, wide = (outcome(m, given) for m in (compiled, model, exact))
        for mine, eager, right in zip(found, wanted, wide, strict=True):
            assert has_strides(mine, eager)
            torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-3)  # sums over a larger batch
        finish()


def outcome(model: Any, x: Tensor) -> list[Tensor]:
    """Returns results and gradients, computed in the dtype of the model's parameters."""
    dtype = next(model.parameters()).dtype
    leaf = x.detach().to(dtype).requires_grad_()
    results = model(leaf)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(r.square().sum() for r in results)
    return [*results, *torch.autograd.grad(loss, [leaf, *model.parameters()])]


class Ragged(nn.Module):
    """The CPU's library gives the channels of these convolutions last: they fill no vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def test_a_convolution_is_saved_as_it_gives_its_result() -> None:
    compiled = torch.compile(Ragged(), backend="lamina", options={"cache": False})
    strides = saved_by(compiled, torch.randn(2, 6, 5, 7, requires_grad=True))
    assert (210, 1, 42, 6) in strides


def test_one_of_symbolic_sizes_is_too() -> None:
    x = torch.randn(3, 6, 5, 7)
    torch._dynamo.mark_dynamic(x, [0, 2, 3])
    compiled = torch.compile(Ragged(), backend="lamina", options={"cache": False})
    assert (210, 1, 42, 6) in saved_by(compiled, x.requires_grad_())
    assert (6 * 4 * 9, 1, 54, 6) in saved_by(compiled, torch.randn(2, 6, 4, 9, requires_grad=True))


def test_strides_may_be_symbolic_where_no_size_is() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    row = mode.from_tensor(torch.empty(7), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC]))
    with mode:
        value = torch.empty(3, 4)
    (size,) = exact_sizes(row.shape)
    assert exact_sizes(restrided(value, (2 * size + 1, 1)).stride()) == (2 * size + 1, 1)


class Adapted(nn.Module):
    """A frozen product in bf16 from which two gates are computed, one of its sum with another product."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.low, self.last = (nn.Linear(n, m, bias=False) for n, m in ((8, 24), (8, 24), (24, 8)))
        self.whole.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        silu, whole = nn.functional.silu, self.whole(x)
        return x + self.last(silu(whole + self.low(x) * 2)) + self.last(silu(whole))


def test_what_was_widened_is_saved_as_it_was() -> None:
    """Gates are computed in f32; AOTAutograd's partitioner would save the f32 copy, which is nearest to backward."""
    saved = list[torch.dtype]()

    def note(t: Tensor) -> Tensor:
        saved.append(t.dtype)
        return t

    x = torch.randn(2, 5, 8, dtype=torch.bfloat16, requires_grad=True)
    compiled = torch.compile(Adapted().bfloat16(), backend="lamina", options={"cache": False, "target": "null:nvvm:sm_90a"})
    with saved_tensors_hooks(note, lambda t: t):
        compiled(x)
    assert set(saved) == {torch.bfloat16}


def test_the_cache_keeps_them_apart(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache entry records the results' layout: requests with and without strides are different graphs."""
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    model, x = Depthwise(), torch.randn(2, 8, 5, 7, requires_grad=True)
    torch._dynamo.reset()  # other tests call this model's code with other sizes
    first = outcome(torch.compile(model, backend="lamina"), x)
    torch._dynamo.reset()
    again = outcome(torch.compile(model, backend="lamina"), x)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)


def test_a_backward_graph_that_reads_by_strides_gets_eagers() -> None:
    def overlapping(x: Tensor, w: Tensor) -> Tensor:
        hidden = torch.conv2d(x, w, groups=8, padding=1)
        return hidden.as_strided((2, 8, 4), (320, 40, 2)).square()

    x, w = torch.randn(2, 8, 5, 8, requires_grad=True), torch.randn(8, 1, 3, 3, requires_grad=True)
    wanted = torch.autograd.grad(overlapping(x, w).sum(), (x, w))
    found = torch.autograd.grad(torch.compile(overlapping, backend="lamina", options={"cache": False})(x, w).sum(), (x, w))
    for mine, eager in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-4)


class Pooled(nn.Module):
    """Averages an image to one pixel, of whose gradient backward reads by strides where channels are last."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def test_only_what_is_read_by_strides_gets_eagers(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = compiled_programs(monkeypatch)
    model, x = Pooled(), torch.randn(2, 4, 9, 7).to(memory_format=torch.channels_last)
    exact = Pooled().double()
    exact.load_state_dict(model.state_dict())
    found, wanted = (outcome(m, x) for m in (torch.compile(model, backend="lamina", options={"cache": False}), exact))
    assert programs[0].saved
    for mine, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)


class Heads(nn.Module):
    """Merges the heads with the batch and splits them again, as torch's own attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return result


def test_parts_of_one_projection_are_saved_in_its_memory() -> None:
    """They are not copied, though no strides express heads merged with the batch, nor three parts as one contiguous tensor."""
    saved: list[Tensor] = []
    model, x = Heads(), torch.randn(5, 7, 32, requires_grad=True)
    compiled = torch.compile(model, backend="lamina", options={"cache": False})
    with saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        compiled(x)
    parts = [t for t in saved if tuple(t.shape) == (5, 4, 7, 8) and t.stride(2) == 5 * 96]
    assert len(parts) == 3 and len({t.untyped_storage().data_ptr() for t in parts}) == 1
    for mine, eager in zip(outcome(compiled, x), outcome(model, x), strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-4)


class ReturnsAPart(nn.Module):
    """Returns a copy of a part of what is saved, which the caller may change."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 8))

    def forward(self, x: Tensor) -> Any:
        p = x @ self.w
        q, k, v = p[:64], p[64:128], p[128:]
        return q @ k.t(), k.clone(), v.sum()


def test_what_the_caller_changes_is_not_what_is_saved() -> None:
    model, x = ReturnsAPart(), torch.randn(1024, 16, requires_grad=True)
    gradients = []
    for f in (torch.compile(model, backend="lamina", options={"cache": False}), model):
        a, part, s = f(x)
        with torch.no_grad():
            part.mul_(100)
        gradients.append(torch.autograd.grad((a * a).sum() + s, [x, model.w]))
    for mine, eager in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-2)


PARTS: dict[str, tuple[Callable[[Tensor], Any], tuple[int, ...]]] = {
    "whole": (lambda y: (y, y * 2), (0, 1)),
    "the first of each row": (lambda y: (y[:, 0], y * 2), (1,)),
    "another shape, in which it is returned": (lambda y: (y.flatten(1), y * 2), (0, 1)),
    "two of one": (lambda y: (y, y.flatten(1)), ()),
}


@pytest.mark.parametrize("name", PARTS)
def test_only_whole_results_may_lie_otherwise(name: str) -> None:
    """The strides of a result's part or reshape do not follow from the result's."""
    function, wanted = PARTS[name]
    graph = make_fx(lambda x: function(x.exp()), tracing_mode="fake")(torch.randn(2, 5, 4)).graph
    found = classify(graph, list(graph.output_node().args[0]), graph.find_nodes(op="placeholder"))
    assert own_results(found, (0, 1)) == wanted


def test_tokens_of_checks_are_not_among_the_results() -> None:
    """torch orders checks of singular matrices by tokens, which precede the results of a graph."""
    torch._dynamo.reset()
    solve = torch.compile(lambda a, b: torch.linalg.solve(a.sin(), b).cos(), backend="lamina", options={"cache": False})
    given = [torch.randn(5, 5), torch.randn(5, 2)]
    mine, theirs = ([t.clone().requires_grad_() for t in given] for _ in range(2))
    solve(*mine).sum().backward()
    torch.linalg.solve(theirs[0].sin(), theirs[1]).cos().sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)

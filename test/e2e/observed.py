"""Records everything that a caller observes of a call: results, gradients, state, and which of them share memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

# Of a value, relative to it and to the largest of its tensor, or to 0.1 where all are smaller, as they may be by cancellation. Over
# 10,000 random modules (test_properties.py) the float32 of eager is within 1.2e-5 of its float64.
CLOSE = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-4, torch.complex64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2,
}  # fmt: skip


@dataclass(frozen=True)
class Observed:
    """outputs    what was returned
    tensors    all tensors in sight after the call, by a name: inputs, state of the model, outputs
    gradients  of the outputs with random weights, by the name of the tensor; empty where none was asked for
    """

    outputs: Any
    tensors: dict[str, Tensor]
    gradients: dict[str, Tensor | None]


def observe(
    run: Callable[..., Any],
    module: Any,
    args: Sequence[Any],
    *,
    gradients: bool,
    seed: int,
    inputs_need: bool = True,
    own_leaves: bool = True,
) -> Observed:
    """Calls `run`, which stands for `module`, and differentiates what it returns.

    inputs_need  gradients of the inputs are asked for, besides those of the module's parameters
    own_leaves   the inputs are leaves of autograd; else copies of leaves, which a model may change in place
    """
    leaves = _named("input", args)
    given: Any = args
    if gradients and inputs_need:
        for t in leaves.values():
            t.requires_grad_(t.is_floating_point() or t.is_complex())
        given = args if own_leaves else pytree.tree_map_only(Tensor, _Copy.apply, args)
    outputs = run(*given)
    state = _state(module)
    seen, returned = _named("input", given), _named("output", outputs)
    wanted = {name: t for name, t in {**leaves, **state}.items() if t.requires_grad and t.is_leaf}
    found = _differentiate({**returned, **seen}, wanted, seed) if gradients else {}
    return Observed(outputs, {**seen, **state, **returned}, found)


def _named(kind: str, tree: Any) -> dict[str, Tensor]:
    return {f"{kind} {i}": t for i, t in enumerate(pytree.tree_leaves(tree)) if isinstance(t, Tensor)}


def _state(module: Any) -> dict[str, Tensor]:
    """Returns parameters, buffers, and tensors that are plain attributes, by each of their names."""
    if not isinstance(module, nn.Module):
        return {}
    found = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    plain = {f"{path}.{name}": t for path, m in module.named_modules() for name, t in vars(m).items() if isinstance(t, Tensor)}
    return {**found, **plain}


class _Copy(torch.autograd.Function):
    """Copies elements to the same offsets of new memory, which may be written under autograd."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def _differentiate(values: dict[str, Tensor], wanted: dict[str, Tensor], seed: int) -> dict[str, Tensor | None]:
    """Returns gradients of all values that depend on `wanted`, weighted by numbers drawn from the seed."""
    of = {name: t for name, t in values.items() if t.requires_grad and t.grad_fn is not None}
    if not of or not wanted:
        return dict.fromkeys(wanted)
    generator = torch.Generator().manual_seed(seed % (1 << 63))
    weights = [torch.randn(t.shape, dtype=torch.float64, generator=generator).to(t.dtype) for t in of.values()]
    return dict(zip(wanted, torch.autograd.grad(list(of.values()), list(wanted.values()), weights, allow_unused=True), strict=True))


def agree(got: Observed, want: Observed, tolerance: float = 0.0) -> None:
    """AssertionError that names the first difference that a caller could notice.

    tolerance  at least that, relative to the largest value of a tensor, where CLOSE has less
    """
    mine, spec = pytree.tree_flatten(got.outputs)
    theirs, expected = pytree.tree_flatten(want.outputs)
    assert spec == expected, f"the outputs have the structure {spec}, not {expected}"
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if not isinstance(b, Tensor):
            assert type(a) is type(b) and a == b, f"output {i} is {a!r}, not {b!r}"
    assert got.tensors.keys() == want.tensors.keys(), f"{sorted(got.tensors.keys() ^ want.tensors.keys())} are there once only"
    for name, tensor in want.tensors.items():
        _same_tensor(name, got.tensors[name], tensor, tolerance)
    shared, wanted = sharing(got.tensors), sharing(want.tensors)
    assert shared == wanted, f"memory is shared by {_differing(shared, wanted)}, in eager by {_differing(wanted, shared)}"
    assert got.gradients.keys() == want.gradients.keys(), "other tensors need gradients"
    scale = max((_largest(gradient) for gradient in want.gradients.values() if gradient is not None), default=0.0)
    for name, gradient in want.gradients.items():
        _same_gradient(f"gradient of {name}", got.gradients[name], gradient, tolerance, scale)


def _same_tensor(name: str, got: Tensor, want: Tensor, tolerance: float) -> None:
    assert isinstance(got, Tensor), f"{name} is a {type(got).__name__}, not a tensor"
    assert got.dtype == want.dtype, f"{name} is {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{name} has shape {tuple(got.shape)}, not {tuple(want.shape)}"
    assert got.stride() == want.stride() or want.numel() < 2, f"{name} has strides {got.stride()}, not {want.stride()}"
    assert got.requires_grad == want.requires_grad, f"{name} {'needs' if got.requires_grad else 'does not need'} gradients"
    _close(name, got, want, tolerance)


def _same_gradient(name: str, got: Tensor | None, want: Tensor | None, tolerance: float, scale: float) -> None:
    """Asserts that two gradients agree. scale: the call's largest gradient, since terms that cancel in one tensor, such as a bias
    before a BatchNorm, were as large in others."""
    if got is None or want is None:  # zeros where eager has none: torch's own back ends do so too
        assert got is None or not got.any(), f"{name} is not None"
        assert want is None or not want.any(), f"{name} is None"
        return
    assert got.dtype == want.dtype and got.shape == want.shape, (
        f"{name} is {got.dtype}{[*got.shape]}, not {want.dtype}{[*want.shape]}"
    )
    _close(name, got, want, tolerance, scale)


def _largest(t: Tensor) -> float:
    finite = t.detach().abs()[t.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _close(name: str, got: Tensor, want: Tensor, least: float, scale: float = 0.0) -> None:
    got, want = got.detach(), want.detach()
    if want.dtype not in CLOSE:
        assert torch.equal(got, want), f"{name} is {_some(got)}, not {_some(want)}"
        return
    tolerance = max(CLOSE[want.dtype], least)
    largest = max(0.1, scale, _largest(want))
    right = torch.isclose(got, want, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
    assert right.all(), (
        f"{name} is {_some(got[~right])}, not {_some(want[~right])}, at {int((~right).sum())} of {right.numel()} places"
    )


def _some(t: Tensor) -> list[Any]:
    found: list[Any] = t.reshape(-1)[:3].tolist()
    return found


def sharing(tensors: dict[str, Tensor]) -> dict[str, tuple[str, int]]:
    """Returns, for each tensor, the first that shares its storage, and the distance in bytes between their first elements."""
    first: dict[int, tuple[str, int]] = {}
    found = {}
    for name, t in tensors.items():
        storage = t.untyped_storage()
        if not storage.nbytes():
            continue
        leader, start = first.setdefault(storage.data_ptr(), (name, t.data_ptr()))
        found[name] = (leader, t.data_ptr() - start)
    return found


def _differing(one: dict[str, tuple[str, int]], other: dict[str, tuple[str, int]]) -> str:
    return str({name: place for name, place in one.items() if other.get(name) != place})

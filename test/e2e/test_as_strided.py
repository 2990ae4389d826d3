"""Tests as_strided and its scatter by both entry points: `storage_offset` counts from the start of a tensor's storage."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from entry_points import ENTRY_POINTS, same, static_and_dynamic
from torch import Tensor

import lamina

SIZE, STRIDE, OFFSET = (2, 3), (2, 1), 13
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "as_strided": lambda x: x.as_strided(SIZE, STRIDE, OFFSET) * 2,
    "as_strided without an offset": lambda x: x.as_strided(SIZE, STRIDE) * 2,
    "as_strided of a view": lambda x: (x * 2)[1:].as_strided(SIZE, STRIDE, OFFSET) + 1,
    "as_strided of a transposed view": lambda x: (x * 2).t()[1:].as_strided(SIZE, STRIDE) + 1,
    "as_strided twice": lambda x: x.as_strided(SIZE, STRIDE, OFFSET).as_strided((2,), (1,), 14) * 2,
    "as_strided as a result": lambda x: (x * 2).as_strided((3, 5), (1, 3)),
    "as_strided of all as a result": lambda x: (x * 2).as_strided(x.shape[::-1], x.clone().stride()[::-1]),
    "as_strided with gaps as a result": lambda x: (x * 2).as_strided((2, 2), (1, 5), 2),
    "as_strided with overlaps": lambda x: (x * 2).as_strided((5, 3), (2, 1)).cos(),
    "as_strided_": lambda x: (x * 2)[1:].as_strided_(SIZE, STRIDE, 3) + 1,
    "as_strided_copy": lambda x: torch.as_strided_copy(x, SIZE, STRIDE, OFFSET),
    "as_strided_copy of a view": lambda x: torch.as_strided_copy((x * 2)[1:], SIZE, STRIDE, 3),
    "as_strided_scatter": lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (2, 1), OFFSET),
    "as_strided_scatter of a view": lambda x: torch.as_strided_scatter((x * 2)[1:], torch.ones(2, 2), (2, 2), (2, 1), 3),
    "as_strided_scatter without an offset": lambda x: torch.as_strided_scatter((x * 2)[1:], torch.ones(2, 2), (2, 2), (2, 1)),
    "as_strided_scatter of all": lambda x: torch.as_strided_scatter(x * 2, (x + 1).reshape(-1, 1), (x.numel(), 1), (1, 1), 0),
    "as_strided_scatter of all, turned": lambda x: torch.as_strided_scatter((x * 2).t(), x.cos(), x.shape, (1, x.shape[0]), 0),
    "as_strided_scatter twice": lambda x: torch.as_strided_scatter(
        torch.as_strided_scatter((x * 2)[1:], torch.ones(2, 2), (2, 2), (2, 1), 3), torch.zeros(2), (2,), (3,), 7
    ),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "with an offset": lambda x: x[2:],
    "transposed": lambda x: x.t()[1:],
    "with gaps": lambda x: x[1:, 1:4],
    "every second row": lambda x: x[1::2],
}


GRADIENTS = [name for name in FUNCTIONS if "scatter" not in name]  # eager has those of scatters for contiguous tensors alone


def of_each(function: Callable[[Tensor], Tensor]) -> Callable[..., list[Tensor]]:
    return lambda *inputs: [function(x) for x in inputs]


def loss(results: list[Tensor]) -> Tensor:
    return torch.stack([(y * torch.arange(1.0, 1 + y.numel()).view(y.shape)).sum() for y in results]).sum()


@pytest.mark.parametrize(("name", "entry_point"), static_and_dynamic(FUNCTIONS))
def test_values(name: str, entry_point: str) -> None:
    inputs = tuple(arrange(torch.arange(49.0).view(7, 7)) for arrange in LAYOUTS.values())
    run = of_each(FUNCTIONS[name])
    same(ENTRY_POINTS[entry_point](run, inputs)(*inputs), run(*inputs))


@pytest.mark.parametrize(
    ("name", "entry_point"), [(name, [*ENTRY_POINTS][i % len(ENTRY_POINTS)]) for i, name in enumerate(GRADIENTS)]
)
def test_gradients(name: str, entry_point: str) -> None:
    inputs = tuple(arrange(torch.arange(49.0).view(7, 7)).requires_grad_() for arrange in LAYOUTS.values())
    run = of_each(FUNCTIONS[name])
    want = torch.autograd.grad(loss(run(*inputs)), inputs)
    same(torch.autograd.grad(loss(ENTRY_POINTS[entry_point](run, inputs)(*inputs)), inputs), want)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_input_elsewhere_in_its_memory(entry_point: str) -> None:
    """The offset is taken from the call's tensor, not from the example."""
    run = ENTRY_POINTS[entry_point](FUNCTIONS["as_strided"], (torch.zeros(3, 7),))
    for x in (torch.arange(21.0).view(3, 7), torch.arange(49.0).view(7, 7)[2:5]):
        same(run(x), FUNCTIONS["as_strided"](x))


def test_means_of_tokens_have_gradients_in_kernels() -> None:
    """The tokens have channels last; torch computes their pooling as a mean and as_strided."""
    report = lamina.explain(
        lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 1) * 2,
        (torch.randn(2, 5, 7, requires_grad=True),),
        show=False,
        training=True,
    )
    assert not any(graph.externals for graph in report.graphs)


def test_places_in_an_inputs_memory_are_listed() -> None:
    for offset, eager in ((None, []), (1, ["aten.as_strided.default"])):
        report = lamina.explain(lambda x: x.as_strided((3,), (2,), offset) * 2, (torch.zeros(7, 7),), show=False)  # noqa: B023
        assert [call.callee for graph in report.graphs for call in graph.externals] == eager


def test_writes_by_strides_are_kernels() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y.as_strided((3, 2), (9, 3), 4).mul_(x[0, 0])
        return y

    compiled = torch.compile(function, backend="lamina", options={"cache": False, "strict": True})
    same(compiled(x := torch.randn(5, 7)), function(x))

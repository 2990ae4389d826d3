"""Tests the arguments of models compiled by `lamina.compile`: shared memory, names, defaults and numbers."""

import copy

import pytest
import torch
from ahead_of_time import ahead, x
from entry_points import same
from pairs import pairwise
from torch import Tensor, nn


@pytest.mark.parametrize("grad", [False, True])
def test_aliases_of_the_example_are_not_kept(grad: bool) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return a - 3 * b

    weight = nn.Parameter(x(4))
    model = nn.Linear(4, 4)
    with torch.set_grad_enabled(grad):
        t = x(4)
        for example in ((t, t), (t, t[:]), (weight, weight), (weight, weight.detach())):
            compiled = ahead(function, *example)
            a, b = x(4), x(4)
            for args in ((a, b), (a, a), (b, a), (a, a[:]), (weight, weight)):
                same(compiled(*args), function(*args))
        compiled = ahead(model, model.weight)
        a = x(4, 4)
        same(compiled(a), model(a))
        same(compiled(model.weight), model(model.weight))
        compiled = ahead(model, model.weight.detach())
        same(compiled(a), model(a))


def test_attention_to_itself_and_to_others() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    q, k, v = x(2, 3, 8), x(2, 3, 8), x(2, 3, 8)
    for example, mode, grad in pairwise([(q, q, q), (q, k, k), (q, k, v)], [True, False], [True, False]):
        compiled = ahead(model.train(mode), *example)
        with torch.set_grad_enabled(grad):
            for args in ((q, k, v), (q, q, q), (q, k, k), (k, q, k)):
                torch.testing.assert_close(compiled(*args)[0], model(*args)[0], rtol=1e-4, atol=1e-5)


def accumulates(a: Tensor, b: Tensor) -> Tensor:
    a.mul_(2)
    return a * b


@pytest.mark.parametrize("grad", [False, True])
def test_arguments_that_share_memory_and_change(grad: bool) -> None:
    compiled = ahead(accumulates, x(4), x(4))
    for make in (
        lambda: [x(4), x(4)],
        lambda: [x(4)] * 2,
        lambda: list(x(1, 4).expand(2, 4)),
        lambda: [(t := x(6))[:4], t[2:]],
        lambda: [(t := x(6))[2:], t[:4]],
    ):
        torch.manual_seed(5)
        mine = make()
        torch.manual_seed(5)
        theirs = make()
        same(compiled(*mine), accumulates(*theirs))
        same(mine, theirs)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, a: Tensor) -> Tensor:
        self.total.add_(a)
        return a * self.total


def test_a_buffer_that_the_model_changes_as_input() -> None:
    for example in (x(4), None):
        model, twin = Counts(), Counts()
        compiled = ahead(model, model.total if example is None else example)
        for a in (x(4), None, x(4), None):
            model.total.add_(1), twin.total.add_(1)
            same(compiled(model.total if a is None else a), twin(twin.total if a is None else a))
            same(model.total, twin.total)


def test_memory_that_is_exchanged_by_data() -> None:
    """A tensor assigned to a parameter's or buffer's `data` may share memory with an argument or with another tensor of the
    model."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
            self.register_buffer("other", torch.zeros(4))

        def forward(self, a: Tensor) -> Tensor:
            self.seen.add_(1)
            return a * 2 + self.other

    model = Model()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        compiled = ahead(model, x(4))
        for step in range(4):
            a = x(4)
            b = a.clone()
            for m, given in ((model, a), (twin, b)):
                if step == 1:
                    m.seen.data = given
                if step == 2:
                    m.other.data = m.seen.data
                if step == 3:
                    m.seen.data, m.other.data = torch.ones(8)[::2], torch.ones(4)
            same((compiled(a), a, model.seen), (twin(b), b, twin.seen))


def test_keys_of_a_dictionary_in_another_order() -> None:
    def function(inputs: dict[str, Tensor], scale: float = 2.0) -> Tensor:
        return torch.cat([v * scale for v in inputs.values()])

    compiled = ahead(function, {"a": x(3), "b": x(4)})
    a, b = x(3), x(4)
    for inputs in ({"a": a, "b": b}, {"b": b, "a": a}):
        same(compiled(inputs), function(inputs))
        same(compiled(inputs, 2.0), function(inputs))
        same(compiled(inputs=inputs, scale=2.0), function(inputs))
    with pytest.raises(ValueError, match="scale"):
        compiled({"a": a, "b": b}, 3.0)
    with pytest.raises(TypeError):
        compiled({"a": a, "c": b})
    with pytest.raises(ValueError, match="shape"):
        compiled({"b": a, "a": b})


def test_defaults_may_be_given_or_left_out() -> None:
    def function(a: Tensor, mask: Tensor | None = None, *, scale: float = 1.5) -> Tensor:
        return a * scale

    a = x(4)
    for example in ((a,), (a, None)):
        compiled = ahead(function, *example)
        for call in ((lambda f: f(a)), (lambda f: f(a, None)), (lambda f: f(a, scale=1.5)), (lambda f: f(a=a, mask=None))):
            same(call(compiled), a * 1.5)


@pytest.mark.parametrize("value", [float("nan"), -0.0, 0.0, 1, True])
def test_numbers_are_what_they_were(value: float) -> None:
    compiled = ahead(lambda a, v: torch.copysign(a, torch.tensor(float(v))) if v == v else a, x(3), value)
    compiled(x(3), type(value)(value))
    for other in (-0.0, 0.0, 1, True, float("nan")):
        if repr(other) != repr(value):
            with pytest.raises((TypeError, ValueError), match="compile again"):
                compiled(x(3), other)

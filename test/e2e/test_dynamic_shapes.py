"""`lamina.compile(dynamic_shapes=...)`: one compilation serves all sizes in range, and errors name what is out of it."""

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from ahead_of_time import x
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection
from watched import compiled_programs

import lamina
from lamina.core.program import Program
from lamina.frontend.compiling import sized

OPTIONS = {"cache": False}
ERROR = lamina.CompileError


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nothing is compiled per size here
        yield


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Records what is compiled."""
    return compiled_programs(monkeypatch)


def dynamic(model: Callable[..., Any], inputs: Any, shapes: Any) -> Callable[..., Any]:
    return lamina.compile(model, inputs, dynamic_shapes=shapes, options=OPTIONS)


def near(compiled: Callable[..., Any], model: nn.Module, *inputs: Tensor) -> None:
    wanted = copy.deepcopy(model).double()(*(t.double() if t.is_floating_point() else t for t in inputs))
    torch.testing.assert_close(compiled(*inputs).double(), wanted, rtol=1e-4, atol=1e-4)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(19, 33), nn.GELU(), nn.LayerNorm(33), nn.Linear(33, 7), nn.Softmax(-1))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)


@pytest.mark.parametrize("make, width", [(mlp, 19), (encoder, 32)])
def test_one_compilation_serves_all_sizes(builds: list[Program], make: Callable[[], nn.Module], width: int) -> None:
    model = make().eval()
    with torch.no_grad():
        compiled = dynamic(model, (x(4, 10, width),), ({0: Dim("batch", max=64), 1: Dim.AUTO},))
        for sizes in ((4, 10), (2, 2), (3, 17), (64, 5), (2, 127), (7, 128), (4, 10)):
            near(compiled, model, x(*sizes, width))
    assert len(builds) == 1


def test_gradients_of_all_sizes_come_from_one_compilation(builds: list[Program]) -> None:
    model = mlp()
    compiled = dynamic(model, (x(4, 10, 19).requires_grad_(),), {"input": (Dim.AUTO, Dim.AUTO, Dim.STATIC)})
    for sizes in ((4, 10), (3, 17), (9, 2)):
        given = x(*sizes, 19).requires_grad_()
        exact, wide = given.detach().double().requires_grad_(), copy.deepcopy(model).double()
        weight = x(*sizes, 7)
        (compiled(given) * weight).sum().backward()
        (wide(exact) * weight.double()).sum().backward()
        torch.testing.assert_close(given.grad.double(), exact.grad, rtol=1e-3, atol=1e-4)
        for one, other in zip(model.parameters(), wide.parameters(), strict=True):
            torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=1e-4)
            one.grad = None
    assert len(builds) == 2  # forward and backward


def test_sizes_of_0_and_1_are_compiled_apart(builds: list[Program]) -> None:
    model = mlp().eval()
    with torch.no_grad():
        compiled = dynamic(model, (x(1, 10, 19),), ({0: Dim("batch"), 1: Dim("length", min=1)},))
        for sizes in ((1, 10), (1, 3), (5, 4), (0, 4), (0, 7), (6, 1), (2, 2), (1, 1)):
            near(compiled, model, x(*sizes, 19))
    assert len(builds) == 5  # batch 1, both open, batch 0, length 1, both 1


def test_batch_norm_trains_with_an_open_batch() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    eager = copy.deepcopy(model)
    compiled = dynamic(model, (x(4, 3, 8, 8),), ({0: Dim.DYNAMIC},))
    for batch in (4, 3, 8):
        given = x(batch, 3, 8, 8)
        torch.testing.assert_close(compiled(given), eager(given), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model[1].running_var, eager[1].running_var)


def test_results_that_are_views_and_arguments_that_change() -> None:
    def function(a: Tensor) -> tuple[Tensor, ...]:
        a.add_(1)
        return a * 2, a[-1], a.view(-1), a[:, 1:], a.t()

    compiled = dynamic(function, x(4, 10), ({0: Dim("n", min=3), 1: Dim("m", min=3)},))
    for sizes in ((4, 10), (5, 7), (9, 9)):
        one = x(*sizes)
        other = one.clone()
        for made, wanted in zip(compiled(one), function(other), strict=True):
            torch.testing.assert_close(made, wanted)
            assert made.stride() == wanted.stride()
            if wanted.untyped_storage().data_ptr() == other.untyped_storage().data_ptr():
                assert made.data_ptr() - one.data_ptr() == wanted.data_ptr() - other.data_ptr()
        torch.testing.assert_close(one, other)


LAYOUTS: dict[str, Callable[[int, int], Tensor]] = {
    "contiguous": lambda b, n: x(b, n, 19),
    "transposed": lambda b, n: x(n, b, 19).transpose(0, 1),
    "permuted": lambda b, n: x(19, b, n).permute(1, 2, 0),
    "rows left out": lambda b, n: x(b, 2 * n, 19)[:, ::2],
    "cut": lambda b, n: x(b, n + 3, 19)[:, :n],
    "narrow": lambda b, n: x(b, n, 40)[..., :19],
    "expanded": lambda b, n: x(b, 19)[:, None].expand(b, n, 19),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(builds: list[Program], layout: str) -> None:
    model = mlp().eval()
    with torch.no_grad():
        compiled = dynamic(model, (x(4, 10, 19),), ({0: Dim.AUTO, 1: Dim.AUTO},))
        for sizes in ((4, 10), (3, 17), (9, 2)):
            given = LAYOUTS[layout](*sizes)
            near(compiled, model, given)
            assert compiled(given).stride() == model(given).stride()
    assert len(builds) == (1 if layout == "contiguous" else 2)


def add(a: Tensor, b: Tensor) -> Tensor:
    return torch.relu(a + b)


def test_a_size_out_of_range_is_named() -> None:
    compiled = dynamic(add, (x(4, 3), x(4, 3)), ({0: (n := Dim("n", min=2, max=8))}, {0: n}))
    with pytest.raises(ValueError, match=r"dimension 0 of argument 'a' must be from 2 to 8 \(n\); it is 9$"):
        compiled(x(9, 3), x(9, 3))
    with pytest.raises(ValueError, match=r"dimension 0 of argument 'a' must be from 2 to 8 \(n\); it is 1$"):
        compiled(x(1, 3), x(1, 3))
    with pytest.raises(ValueError, match=r"argument 'b' must have shape \[n, 3\]; it has \[4, 2\]$"):
        compiled(x(4, 3), x(4, 2))
    with pytest.raises(ValueError, match="'a' must be at least 9"):
        dynamic(add, (x(4, 3), x(4, 3)), {"a": {0: Dim("n", min=9)}, "b": None})
    torch.testing.assert_close(compiled(*(given := (x(8, 3), x(8, 3)))), add(*given))


@pytest.mark.parametrize("dim", [Dim("n"), Dim.AUTO])
def test_sizes_that_must_be_equal_are_named(dim: Any) -> None:
    compiled = dynamic(add, (x(4, 3), x(4, 3)), ({0: dim}, {0: dim}))
    message = r"dimension 0 of argument 'a' and dimension 0 of argument 'b' must be equal.*; they are 5 and 6"
    with pytest.raises(ValueError, match=message):
        compiled(x(5, 3), x(6, 3))
    torch.testing.assert_close(compiled(*(given := (x(5, 3), x(5, 3)))), add(*given))


def test_a_size_made_of_another_is_named() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a, a]) * b

    n = Dim("n", max=100)
    compiled = dynamic(function, (x(4, 3), x(8, 3)), ({0: n}, {0: 2 * n}))
    for size in (4, 9, 1):
        given = x(size, 3), x(2 * size, 3)
        torch.testing.assert_close(compiled(*given), function(*given))
    with pytest.raises(ValueError, match=r"'b' must be 2\*n = 10, as dimension 0 of argument 'a' is 5; it is 9"):
        compiled(x(5, 3), x(9, 3))


class Branches(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        if a.shape[0] > 5:
            return a + 1
        return a * 2


class Constant(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        return a * int(a.shape[0])


@pytest.mark.parametrize("model, told", [(Branches(), r"L\['a'\].size\(\)\[0\] <= 5"), (Constant(), "a constant \\(4\\)")])
def test_a_model_that_decides_by_a_size_is_named_with_its_line(model: nn.Module, told: str) -> None:
    line = type(model).forward.__code__.co_firstlineno + 1
    with pytest.raises(ERROR, match=rf"test_dynamic_shapes.py:{line}: dynamic_shapes: Constraints violated \(n\).*{told}"):
        dynamic(model, (x(4, 3),), ({0: Dim("n")},))
    compiled = dynamic(model, (x(4, 3),), ({0: Dim.AUTO},))
    torch.testing.assert_close(compiled(given := x(4, 3)), model(given))
    with pytest.raises(ValueError, match=rf"dimension 0 of argument 'a' must be .*test_dynamic_shapes.py:{line}; it is 6"):
        compiled(x(6, 3))


def test_shapes_unlike_the_inputs_are_refused() -> None:
    inputs = x(4, 3), x(4, 3)
    with pytest.raises(ERROR, match="dynamic_shapes: .*arg names \\['a', 'b'\\]"):
        dynamic(add, inputs, {"a": {0: Dim("n")}, "c": None})
    with pytest.raises(ERROR, match="dynamic_shapes: .*mismatch"):
        dynamic(add, inputs, ({0: Dim("n")},))
    with pytest.raises(ERROR, match="argument 'b' has 2 dimensions, none of number 2"):
        dynamic(add, inputs, (None, {2: Dim("n")}))
    with pytest.raises(ERROR, match="dynamic_shapes: .*'many'"):
        dynamic(add, inputs, ({0: "many"}, None))


def test_nested_inputs_copies_and_collections() -> None:
    def function(given: dict[str, Any], scale: float = 2.0) -> Tensor:
        return given["a"][0] * scale + given["b"]

    n = Dim("n")
    inputs = ({"a": [x(4, 3)], "b": x(4, 3)},)
    collection = ShapesCollection()
    collection[inputs[0]["a"][0]] = {0: n}
    collection[inputs[0]["b"]] = {0: n}
    for shapes in (({"a": [{0: n}], "b": {0: n}},), collection):
        compiled = dynamic(function, inputs, shapes)
        for size in (4, 6, 1):
            given = {"b": x(size, 3), "a": [x(size, 3)]}
            torch.testing.assert_close(compiled(given), function(given))
        with pytest.raises(ValueError, match="must be equal \\(n\\); they are 6 and 5|must be equal \\(n\\); they are 5 and 6"):
            compiled({"a": [x(5, 3)], "b": x(6, 3)})
    model = mlp().eval()
    first = dynamic(model, (x(4, 19),), ({0: n},))
    for compiled in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        with torch.no_grad():
            near(compiled, model, x(9, 19))


def test_what_no_compilation_serves_is_compiled_per_size(builds: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise ERROR("no symbols today")

    monkeypatch.setattr(sized, "sources_of", refuse)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = dynamic(add, (x(4, 3), x(4, 3)), ({0: (n := Dim("n"))}, {0: n}))
        for size in (4, 7, 4):
            given = x(size, 3), x(size, 3)
            torch.testing.assert_close(compiled(*given), add(*given))
    assert [str(w.message) for w in told] == ["lamina compiles this model once per size (the last 8 are kept), as no symbols today"]
    assert told[0].filename == __file__ or told[0].filename.endswith("lamina/__init__.py")
    assert len(builds) == 2


@pytest.mark.parametrize(
    "pick",
    [lambda t, i: t[torch.arange(t.shape[0])[:, None], i], lambda t, i: t[:, i, i.flip(0)] * 2, lambda t, i: t[i, :, i % 3]],
    ids=["rows and columns", "behind a dimension", "around a dimension"],
)
def test_indices_that_share_a_symbolic_size(pick: Callable[..., Any]) -> None:
    rows, columns, picked = Dim.AUTO, Dim.AUTO, Dim.AUTO
    options = {**OPTIONS, "strict": True}
    shapes = ({0: rows, 1: columns}, {0: rows, 1: picked})
    compiled = lamina.compile(pick, (x(9, 12, 16), torch.randint(-9, 9, (9, 5))), dynamic_shapes=shapes, options=options)
    for n, k in ((9, 5), (11, 3)):
        tensor, indices = x(n, n + k, 16), torch.randint(-9, 9, (n, k))
        torch.testing.assert_close(compiled(tensor, indices), pick(tensor, indices), rtol=0, atol=0)
    indices[3, 2] = n + k  # together with the other index, an element of the tensor
    with pytest.raises(IndexError):
        compiled(tensor, indices)


def test_gradients_of_one_index_of_a_symbolic_size() -> None:
    def model(t: Tensor) -> Tensor:
        return t[:, 5] * t[:, 2].sin() + t[:, -1]

    compiled = torch.compile(model, backend="lamina", dynamic=True, options=OPTIONS)
    for size in ((3, 9, 4), (2, 11, 4)):
        mine = x(*size).requires_grad_()
        theirs = mine.detach().clone().requires_grad_()
        compiled(mine).square().sum().backward()
        model(theirs).square().sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)

"""Tests torch._dynamo.decorators.mark_unbacked: one compilation serves all sizes, including 0 and 1."""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE, same
from sized_graphs import GRAPHS, Sized, compilations, rows, sweep, vectors, x
from sized_images import IMAGES, Images
from torch import Tensor, nn
from torch._dynamo.decorators import mark_unbacked

import lamina
from lamina.core.program import Program

F = torch.nn.functional
__all__ = ["compilations"]

SIZES = ((6, 11), (0, 5), (1, 3), (2, 1), (3, 127), (127, 2), (1000, 3))
"""Not (n, 0): torch guards on the stride of the dimension outside, which is another one where a tensor has no elements."""


def unbacked(function: Callable[..., Any], dims: Sequence[Sequence[int]]) -> Callable[..., Any]:
    """Compiles a function of tensors; `dims` are the dimensions of each on which torch may not guard."""
    compiled = torch.compile(function, backend=BACKEND, options=NO_CACHE, fullgraph=True)

    def call(*args: Any) -> Any:
        for arg, marked in zip(args, dims, strict=True):
            if marked:
                mark_unbacked(arg, [*marked])
        return compiled(*args)

    return call


def varying(make: Callable[[int, int], tuple[Any, ...]]) -> list[list[int]]:
    """Returns the dimensions of each argument that two sizes decide."""
    pairs = zip(make(6, 11), make(9, 23), strict=True)
    return [[d for d in range(a.dim()) if a.shape[d] != b.shape[d]] for a, b in pairs]


ROWS = ((6, 11), (1, 3), (2, 1), (127, 2), (3, 1000))
"""For graphs that take no tensors without rows, as eager does not."""
MADE_OF = {
    "standardized": ((6, 11), (2, 3), (1000, 2)),
    "var": ((6, 11), (1, 3), (3, 1000)),
    "amax_columns": ROWS,
    "select": ROWS,
    "index": ROWS,
    "transposed_sum": ROWS,
    "view_shifted": ((6, 6), (1, 1), (127, 127)),
    "group_norm_of_a_convolution": ROWS,
}
CASES = (
    "softmax", "layer_norm", "rms_norm", "standardized", "sum_columns", "sum_all", "var", "cumsum", "argmax", "amax_columns",
    "broadcast_row", "outer", "expand", "view_flat", "view_heads", "view_shifted", "blocks_of_rows", "group_norm_of_a_convolution",
    "strided_every_other", "transposed_sum", "slice_both", "slice_half", "slice_step", "differences", "select", "chunk", "cat_rows",
    "cat_columns", "stack", "pad_negative", "repeat", "arange", "rounded", "tril", "sizes_as_numbers", "masked", "embedding",
    "gather", "index", "matmul", "bmm", "linear", "attention", "sums_of_steps", "max_pool", "conv_tokens", "conv_depthwise_batch",
    "bf16", "resize_bilinear", "resize_like", "train_mlp", "train_layer_norm", "train_attention", "train_cat", "train_pools",
)  # fmt: skip


BEFORE_2_12 = torch.__version__ < "2.12"
"""torch 2.11 gives most slices a size of their own, and asks more."""
NEWER = {
    "view_shifted", "blocks_of_rows", "group_norm_of_a_convolution", "slice_both", "slice_half", "differences", "pad_negative",
    "train_pools", "next_tokens", "cross_entropy",
}  # fmt: skip


def named(names: Iterable[str]) -> list[Any]:
    """Returns the names as parameters, without those that torch 2.11 does not take."""
    skip = pytest.mark.skipif(BEFORE_2_12, reason="torch 2.11 cannot capture it with such sizes, or tells less of them")
    return [pytest.param(name, marks=skip if name in NEWER else ()) for name in names]


@pytest.mark.filterwarnings("error:lamina")
@pytest.mark.parametrize("name", named(CASES))
def test_one_compilation_serves_all_sizes(name: str, compilations: list[Program]) -> None:
    graph = (GRAPHS | IMAGES)[name]
    sweep(graph, unbacked(graph.function, varying(graph.make)), all_sizes=MADE_OF.get(name, SIZES))
    assert len(compilations) == 1 + graph.train


def positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that says that its arguments have elements."""

    def checked(*args: Tensor) -> Any:
        for size in (size for arg in args for size in arg.shape):
            torch._check(size >= 1)
        return function(*args)

    return checked


torch.manual_seed(0)
NET, QKV, TABLE, HEAD = Images().eval(), nn.Linear(16, 48), nn.Embedding(50, 16), nn.Linear(16, 50)
for weights in (NET, QKV, TABLE, HEAD):
    weights.requires_grad_(False)
PLACES = x(1200, 16)


def causal(a: Tensor) -> Tensor:
    q, k, v = (F.linear(a, QKV.weight.to(a.dtype)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)).unbind(0)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def written(a: Tensor) -> Tensor:
    b, n, _ = a.shape
    q, k, v = (F.linear(a, QKV.weight.to(a.dtype)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)).unbind(0)
    hidden = torch.ones(n, n, dtype=torch.bool, device=a.device).triu(1)
    return ((q @ k.mT / 8**0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2).reshape(b, n, 16)


def next_tokens(tokens: Tensor) -> Tensor:
    logits = F.linear(written(TABLE(tokens)), HEAD.weight, HEAD.bias)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def image(b: int, _: int) -> tuple[Any, ...]:
    return (x(b, 3, 12, 14),)


MODELS = {
    "causal": Sized(positive(causal), rows),
    "train_causal": Sized(positive(causal), rows, train=True),
    "train_written": Sized(written, rows, train=True),
    "next_tokens": Sized(next_tokens, lambda b, n: (torch.randint(0, 50, (b + 1, n + 1)),), exact=True),
    "convolution_net": Sized(positive(NET), image, exact=True),
    "train_convolution_net": Sized(positive(NET), image, train=True, exact=True),
    "positions": Sized(lambda a: a + PLACES[: a.shape[1]].to(a.dtype), rows),
    "roll": Sized(positive(lambda a: a.roll(1, 0)), vectors),
    "cross_entropy": Sized(
        lambda a, t: F.cross_entropy(a, t), lambda b, n: (x(b + 1, n), torch.randint(0, n, (b + 1,))), train=True
    ),
    "train_squares": Sized(lambda a, b: ((a - b) ** 2).mean(), lambda b, n: (x(b + 1, n), x(b + 1, n)), train=True),
    "train_binary": Sized(lambda a: F.binary_cross_entropy_with_logits(a, (a > 0).to(a.dtype)), vectors, train=True),
    "train_lookup": Sized(
        lambda i, w: F.embedding(i, w).sum(1), lambda b, n: (torch.randint(0, 50, (b, n)), x(50, 16)), train=True
    ),
}
HAS_ELEMENTS = ("causal", "train_causal", "convolution_net", "train_convolution_net", "roll", "train_binary")


@pytest.mark.filterwarnings("error:lamina")
@pytest.mark.parametrize("name", named(MODELS))
def test_one_compilation_of_a_model_serves_all_sizes(name: str, compilations: list[Program]) -> None:
    graph = MODELS[name]
    sweep(graph, unbacked(graph.function, varying(graph.make)), all_sizes=ROWS if name in HAS_ELEMENTS else SIZES)
    assert len(compilations) == 1 + graph.train


def test_undefined_values_are_eagers(compilations: list[Program]) -> None:
    """The variance of one row, and the mean of no rows."""
    compiled = unbacked(lambda a: (a.var(0), a.mean(0)), [[0]])
    for n in (5, 1, 0, 2):
        a = x(n, 4)
        with warnings.catch_warnings(action="ignore"):
            same(compiled(a), (a.var(0), a.mean(0)))
    assert len(compilations) == 1


def test_rows_without_elements_are_captured_apart(compilations: list[Program]) -> None:
    compiled = unbacked(lambda a: a.exp().sum(-1), [[0, 1]])
    for sizes in ((4, 7), (4, 0), (3, 9), (0, 0)):
        a = x(*sizes)
        same(compiled(a), a.exp().sum(-1))
    assert len(compilations) == 2


def checked(a: Tensor) -> Tensor:
    torch._check(a.shape[0] <= 512)
    torch._check(a.shape[1] % 4 == 0)
    return a.exp().sum(-1)


@pytest.mark.parametrize(
    "sizes, told",
    [
        ((600, 8), "dimension 0 of argument 'a' must be from 0 to 512 at .*test_unbacked_sizes.py:\\d+; it is 600"),
        (
            (8, 7),
            r"the model demands \(\(dimension 1 of argument 'a'\) % 4\) == 0 at .*test_unbacked_sizes.py:\d+; dimension 1 of .* 7",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_size_that_the_model_refuses_is_named(sizes: tuple[int, int], told: str, first: bool) -> None:
    torch._dynamo.reset()
    compiled = unbacked(checked, [[0, 1]])
    for fitting in () if first else ((6, 12), (512, 4), (0, 4)):
        a = x(*fitting)
        same(compiled(a), a.exp().sum(-1))
    with pytest.raises((lamina.CompileError, RuntimeError), match=told):
        compiled(x(*sizes))
    a = x(1, 20)
    same(compiled(a), a.exp().sum(-1))


def test_a_slice_beyond_its_tensor_is_refused() -> None:
    """For the sum of a tensor and the first rows of another, torch requires that there are as many."""
    torch._dynamo.reset()
    compiled = unbacked(MODELS["positions"].function, [[0, 1]])
    with pytest.raises(Exception, match="1200"):
        compiled(x(2, 1201, 16))
    compiled(x(2, 1200, 16))
    with pytest.raises(Exception, match="1200"):
        compiled(x(2, 1201, 16))


def loss_of_tokens(a: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(a.view(-1, a.shape[-1]), target.view(-1))


@pytest.mark.skipif(BEFORE_2_12, reason="torch 2.11 guards on the elements of a view")
@pytest.mark.filterwarnings("error:lamina")
def test_a_view_holds_as_many_elements_as_what_it_views(compilations: list[Program]) -> None:
    """torch requires products of the arguments' sizes to be equal, which relates no two of the sizes."""
    compiled = unbacked(loss_of_tokens, [[0, 1], [0, 1]])
    for b, n in ((3, 5), (1, 7), (6, 4)):
        a, target = x(b, n, 9), torch.randint(0, 9, (b, n))
        same(compiled(a, target), loss_of_tokens(a, target))
    assert len(compilations) == 1
    with pytest.raises((lamina.CompileError, RuntimeError), match="argument 'target'"):
        compiled(x(3, 5, 9), torch.randint(0, 9, (3, 6)))


def test_sizes_that_must_be_equal_are_named() -> None:
    torch._dynamo.reset()
    compiled = unbacked(lambda a, b: a + b, [[0], [0]])
    same(compiled(x(3, 4), x(3, 4)).shape, torch.Size((3, 4)))
    told = "dimension 0 of argument 'a' and dimension 0 of argument 'b' must be equal; they are 3 and 5"
    with pytest.raises(lamina.CompileError, match=told):
        compiled(x(3, 4), x(5, 4))


def test_what_torch_refuses_is_its_error() -> None:
    """torch asks whether a size is 0, for which it can neither add a guard nor wait for the call."""
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.UserError, match="data-dependent expression"):
        unbacked(lambda a: a.roll(1, 0), [[0]])(x(3, 4))


@pytest.mark.parametrize("given, typical", [(None, 9), (300, 300)])
def test_the_first_calls_sizes_are_typical(given: int | None, typical: int) -> None:
    """If there is no hint."""
    a = x(9, 8)
    mark_unbacked(a, 0, hint_override=given)
    mark_unbacked(a, 1)
    found = lamina.explain(checked, (a,), show=False)
    (graph,) = found.graphs
    symbols = {symbol.read: (symbol.typical, symbol.minimum, symbol.maximum, symbol.factor) for symbol in graph.symbols}
    assert symbols == {("a, dimension 0",): (typical, 0, 512, 1), ("a, dimension 1",): (8, 0, None, 4)}
    assert {c.text: re.sub(".*/", "", c.where).partition(":")[0] for c in graph.conditions} == {
        "(a, dimension 0) <= 512": "test_unbacked_sizes.py",
        "((a, dimension 1) % 4) == 0": "test_unbacked_sizes.py",
    }
    assert [found.at({"a": {0: n}}).graphs[0].outcome for n in (0, 1, 600)] == ["new", "new", "refused"]


def test_an_index_of_unknown_sign_is_not_guessed(compilations: list[Program]) -> None:
    compiled = torch.compile(lambda a, b: a[:, b.shape[0] - 3 :].sum(1), backend=BACKEND, options=NO_CACHE)
    for b in (7, 5, 2, 3, 0):
        a, c = x(4, 9), x(b)
        mark_unbacked(c, 0)
        same(compiled(a, c), a[:, b - 3 :].sum(1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16], ids=str)
@pytest.mark.parametrize(
    "divide",
    [
        lambda y, n: y // n,
        lambda y, n: y % n,
        torch.fmod,
        lambda y, n: torch.div(y, n, rounding_mode="trunc"),
        lambda y, n: y % (2 * n - 2),
    ],
    ids=["floor", "remainder", "fmod", "trunc", "an expression"],
)
def test_integers_divided_by_a_size(divide: Callable[..., Tensor], dtype: torch.dtype, compilations: list[Program]) -> None:
    def fn(y: Tensor, a: Tensor) -> Tensor:
        return divide(y, a.shape[0])

    run, y = unbacked(fn, [[], [0]]), torch.tensor([7, -3, 5, 0, 100], dtype=dtype)
    for n in (3, 0, 1, 2, 0, 1000):
        a = torch.zeros(n, 2)
        try:
            want = fn(y, a)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                run(y, a)
        else:
            assert torch.equal(run(y, a), want)
    assert len(compilations) == 1

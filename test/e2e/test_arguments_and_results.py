"""Tests arguments and results of models through both entry points against eager."""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, Model, by_export, same
from torch import Tensor, nn

import lamina

EntryPoint = Callable[..., Model]


@pytest.fixture(params=ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def entry_point(request: pytest.FixtureRequest) -> Iterator[EntryPoint]:
    with torch.no_grad():
        yield request.param


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def chain(a: Tensor) -> Tensor:
    return ((a + 1) * 2).relu().sub(0.5).sigmoid()


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.softmax(a, 1),
        lambda a: torch.log_softmax(a, -1),
        lambda a: F.layer_norm(a, a.shape[-1:]),
        lambda a: F.group_norm(a, 2),
    ],
    ids="softmax log_softmax layer_norm group_norm".split(),
)
def test_results_are_laid_out_as_in_eager(entry_point: EntryPoint, function: Model) -> None:
    for a in (x(2, 4, 6, 6).to(memory_format=torch.channels_last), x(6, 2, 6, 4).permute(1, 3, 0, 2)):
        torch._dynamo.reset()
        same(entry_point(function, (a,))(a), function(a))


def test_other_strides_at_a_later_call() -> None:
    with torch.no_grad():
        compiled = by_export(lambda a, b: (a + b).relu(), (x(4, 6), x(4, 6)))
        for a in (x(6, 4).t(), x(10, 6)[3:7], x(4, 12)[:, ::2], x(4, 6)):
            for b in (x(4, 6), x(6, 4).t()):
                same(compiled(a, b), (a + b).relu())


def test_other_strides_with_gradients() -> None:
    """The gradient graphs are compiled at the first call that needs them, whatever its strides."""
    model = nn.Linear(6, 3)
    with torch.no_grad():
        compiled = by_export(model, (x(4, 6),))
    for a in (x(6, 4).t(), x(4, 6), x(4, 12)[:, ::2], x(6, 4).t()):
        a = a.clone(memory_format=torch.preserve_format).requires_grad_()
        (found,) = torch.autograd.grad(compiled(a).sin().sum(), a)
        (expected,) = torch.autograd.grad(model(a).sin().sum(), a)
        torch.testing.assert_close(found, expected)


@dataclasses.dataclass
class Pair:
    left: Tensor
    right: Tensor


def test_trees() -> None:
    def fn(a: dict[str, Any], b: list[Any], c: Pair, *, scale: float = 1.0) -> Any:
        return {"sum": a["x"] + b[0][1], "pair": Pair(c.left * scale, c.right), "rest": (None, 7, [b[0][0] - 1])}

    args = ({"x": x(3), "unused": None}, [(x(3), x(3)), 4], Pair(x(2), x(2)))
    compiled = lamina.compile(fn, args, options=NO_CACHE)
    got, want = compiled(*args), fn(*args)
    same(got["sum"], want["sum"])
    same([got["pair"].left, got["pair"].right], [want["pair"].left, want["pair"].right])
    assert got["rest"][:2] == (None, 7)
    same(got["rest"][2], want["rest"][2])


def test_keyword_arguments() -> None:
    linear = nn.Linear(4, 5).eval()
    with torch.no_grad():
        compiled = lamina.compile(linear, {"input": x(3, 4)}, options=NO_CACHE)
        a = x(3, 4)
        same(compiled(a), linear(a))
        same(compiled(input=a), linear(a))


def test_an_optimizers_step_is_seen() -> None:
    model = nn.Linear(4, 5)
    a = x(3, 4)
    with torch.no_grad():
        compiled = lamina.compile(model, (a,), options=NO_CACHE)
        model.weight.mul_(3)
        same(compiled(a), model(a))
        model.weight = nn.Parameter(x(5, 4))
        same(compiled(a), model(a))
        model.load_state_dict(nn.Linear(4, 5).state_dict())
        same(compiled(a), model(a))


def test_the_models_mode_is_seen() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).eval()
    a = x(6, 4)
    with torch.no_grad():
        compiled = lamina.compile(model, (a,), options=NO_CACHE)
        same(compiled(a), model(a))
        model.train()
        assert (compiled(a) == 0).any()
        model.eval()
        same(compiled(a), model(a))


def test_random_numbers_that_are_not_ours_are_eagers(entry_point: EntryPoint) -> None:
    def model(a: Tensor) -> Tensor:
        return a + torch.randn_like(a, dtype=torch.float64)

    compiled = entry_point(model, (x(50),))
    a = x(50)
    compiled(a)
    for seed in (1, 2):
        torch.manual_seed(seed)
        got = [compiled(a), compiled(a)]
        torch.manual_seed(seed)
        same(got, [model(a), model(a)])
        assert not torch.equal(*got)


def test_a_seed_repeats_what_is_dropped(entry_point: EntryPoint) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)).train()
    a = torch.ones(400)
    with torch.no_grad():
        compiled = entry_point(model, (a,))
        torch.manual_seed(1)
        first = [compiled(a), compiled(a)]
        torch.manual_seed(1)
        same([compiled(a), compiled(a)], first)
    assert not torch.equal(*first)
    assert set(first[0].tolist()) == {0.0, 4.0} and 40 < int((first[0] != 0).sum()) < 160  # a quarter stays: two draws


@pytest.mark.filterwarnings("error:lamina compiles this graph once per size")
def test_all_sizes_have_one_program() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
    compiled = torch.compile(model, backend=BACKEND, options=NO_CACHE)
    for n in (3, 4, 5, 6, 4, 13):
        a = x(n, 5)
        same(compiled(a), model(a))


def test_sizes_that_no_program_serves_have_one_each() -> None:
    """A sine of a size cannot be computed at run time, so each size is compiled separately."""

    def rows(a: Tensor) -> Tensor:
        return a[: int(math.sin(a.shape[0]) * 2 + 3)] * 2

    torch._dynamo.reset()
    compiled = torch.compile(rows, backend=BACKEND, options=NO_CACHE, dynamic=True)
    with pytest.warns(UserWarning, match="mark_static|dynamic=False"):
        for n in (4, 6, 8, 6):
            a = x(n, 3)
            same(compiled(a), rows(a))


def test_a_compiled_model_inside_another() -> None:
    with torch.no_grad():
        inner = by_export(nn.Linear(5, 3), (x(4, 5),))
        outer = by_export(lambda a: inner(a).relu() * 2, (x(4, 5),))
        a = x(4, 5)
        same(outer(a), inner.module(a).relu() * 2)


def test_a_function_that_closes_over_a_module() -> None:
    model = nn.Linear(4, 4)
    with torch.no_grad():
        compiled = by_export(lambda a: model(a) * 2, (x(3, 4),))
        a = x(3, 4)
        same(compiled(a), model(a) * 2)
        model.bias.add_(1)
        same(compiled(a), model(a) * 2)


def test_options_and_targets() -> None:
    assert lamina.compile(chain, (x(5),), options=lamina.Options(cache=False))(x(5)).shape == (5,)
    with pytest.raises(lamina.CompileError, match="unknown option 'cach'.*'cache'"):
        lamina.compile(chain, (x(5),), options={"cach": False})
    with pytest.raises(lamina.CompileError, match="no target is called 'tpu'"):
        lamina.compile(chain, (x(5),), target="tpu")


def test_calls_from_several_threads() -> None:
    import threading

    with torch.no_grad():
        compiled = by_export(chain, (x(64, 33),))
    wrong: list[Exception] = []

    def work() -> None:
        try:
            with torch.no_grad():
                for _ in range(50):
                    a = x(64, 33)
                    same(compiled(a), chain(a))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_compiling_from_several_threads() -> None:
    """Several threads need graphs for the first time at once: forward and backward, and a model's while another thread calls it."""
    from concurrent.futures import ThreadPoolExecutor

    model = nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.LayerNorm(9))
    eager = copy.deepcopy(model)  # torch.export puts fake tensors into the model it traces
    ahead = lamina.compile(model, (x(3, 5),), options=NO_CACHE)

    def work(number: int) -> None:
        a = (x(3, 5) if number % 3 else x(5, 3).t()).requires_grad_()
        compiled = ahead if number % 2 else lamina.compile(lambda b: model(b) * number, (a,), options=NO_CACHE)
        scale = 1 if number % 2 else number
        (found,) = torch.autograd.grad(compiled(a).sin().sum(), a)
        (expected,) = torch.autograd.grad((eager(a) * scale).sin().sum(), a)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            same(compiled(a), eager(a) * scale)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))


def test_the_cache_serves_a_second_compilation(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.frontend.capture.as_module import as_module
    from lamina.frontend.capture.trace import inference, trace
    from lamina.frontend.compiling.stages import Built, build

    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))

    def compiled() -> Built:
        with torch.no_grad():
            return build(inference(trace(as_module(chain), (x(5, 3),), {})).gm, options=lamina.Options())

    first, second = compiled(), compiled()
    assert not first.cached and second.cached
    assert second.program == first.program and second.code == first.code and second.interface == first.interface


def test_a_warm_start_returns_what_is_no_result_of_the_program(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants, captured tensors, empty tensors and aliases of inputs are restored from the cache, too, without normalizing the
    graph again."""
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    table = torch.arange(5000.0)

    def model(a: Tensor) -> Any:
        b = a + table
        return b, a.view(-1, 2), 3, None, b[:0], b.view(2, -1)

    def run(a: Tensor) -> Any:
        return lamina.compile(model, (a,))(a)

    a = x(5000)
    run(a)
    monkeypatch.setattr("lamina.frontend.compiling.stages.normalize", None)
    for given, expected in zip(run(a), model(a), strict=True):
        assert torch.equal(given, expected) if isinstance(expected, Tensor) else given == expected
    results = run(a)
    assert results[1].data_ptr() == a.data_ptr() and results[5].data_ptr() == results[0].data_ptr()

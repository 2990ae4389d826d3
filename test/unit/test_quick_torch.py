"""Tests that the functions of `quick_torch` return the same as the functions of torch that they replace."""

import itertools
import pickle
import warnings
from typing import Any
from unittest import mock

import pytest
import sympy
import torch
from quick_torch_fits import FITS
from torch._export import utils as export_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import sym_node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._config_module import ConfigModule

if not FITS:
    pytest.skip("quick_torch replaces nothing in this torch, or LAMINA_TEST_PLAIN_TORCH is set", allow_module_level=True)
import quick_torch

OPERATIONS = "add sub mul eq ne lt le gt ge int_floordiv int_truediv sym_max sym_min".split()


@pytest.fixture(autouse=True)
def _installed() -> None:
    quick_torch.install()


def sizes(env: ShapeEnv) -> list[SymNode]:
    """Sizes of a tensor and of values, sums, products and quotients of them, numbers and floats."""
    fake = FakeTensorMode(shape_env=env)
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 3)
    a, b, c = fake.from_tensor(torch.empty(5, 7, 12), symbolic_context=context).shape
    u = env.create_unbacked_symint()
    found: list[Any] = [a, b, c, u, a + b, a + b + c, 2 * a, a * b, c // 4, a - c, u + 1, a.node.wrap_int(3), a.node.wrap_int(1)]
    return [getattr(s, "node", s) for s in found]


def same(got: SymNode, want: SymNode) -> None:
    assert got._expr == want._expr and type(got._expr) is type(want._expr)
    assert got.pytype is want.pytype and got._hint == want._hint and type(got._hint) is type(want._hint)
    assert got._optimized_summation == want._optimized_summation and got.constant == want.constant and got.fx_node == want.fx_node


@pytest.mark.parametrize("method", OPERATIONS)
def test_operations_on_sizes(method: str) -> None:
    """Also if their results are remembered, and after a size has become known."""
    env = ShapeEnv()
    nodes = sizes(env)
    quick = vars(SymNode)[f"_{method}"]
    for known in (False, True):
        if known:
            assert nodes[0].shape_env is env and bool(sym_node.wrap_node(nodes[0]) == 5)
        for a, b in itertools.product(nodes, nodes):
            want = quick.__wrapped__(a, b)
            for _ in range(2):
                same(quick(a, b), want)


@pytest.mark.parametrize("method", "add sub mul mod eq ne lt le gt ge".split())
def test_operations_of_python(method: str) -> None:
    """With all kinds of ints, floats, and other objects."""
    values = [sym_node.wrap_node(node) for node in sizes(ShapeEnv())]
    quick = vars(torch.SymInt)[f"__{method}__"]
    for a, b in itertools.product(values, [*values, 7, 0, -1, 2.5, torch.sym_float(values[0]), "text"]):
        if not isinstance(a, torch.SymInt) or (method == "mod" and not isinstance(b, torch.SymInt | str) and b in (0, -1)):
            continue
        got, want = quick(a, b), quick.__wrapped__(a, b)
        assert type(got) is type(want)
        if isinstance(got, sym_node.SymTypes):
            same(got.node, want.node)
        else:
            assert got == want


def test_expressions() -> None:
    env = ShapeEnv()
    nodes = sizes(env)
    assert bool(sym_node.wrap_node(nodes[0]) == 5)
    for node in nodes:
        for _ in range(2):
            assert node.expr == SymNode.expr.fget.__wrapped__(node)  # type: ignore[attr-defined]


def test_symbols_of_expressions() -> None:
    """Callers may modify the returned set."""
    for node in sizes(ShapeEnv()):
        for _ in range(2):
            symbols = node.expr.free_symbols
            assert symbols == node.expr.atoms(sympy.Symbol)
            assert node.expr.is_number == (not symbols)
            symbols.add(sympy.Symbol("another"))


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the default value, a set value, a value that can change, hidden as by mock, under another name, and with an unknown
    name."""
    read = vars(ConfigModule)["__getattr__"]
    for config in (torch._dynamo.config, torch._functorch.config, torch.fx.experimental._config):
        for name in list(config._config):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of names that torch does away with
                assert read(config, name) == read.__wrapped__(config, name), name
    config = torch._dynamo.config
    with config.patch(recompile_limit=3), mock.patch.object(config, "verbose", True):
        assert (config.recompile_limit, config.cache_size_limit, config.verbose) == (3, 3, True)
    for name in ("verbose", "no_such_setting"):
        monkeypatch.delattr(config, name, raising=False)
        assert not hasattr(config, name)


def test_graphs_whose_code_is_asked_for() -> None:
    graph = make_fx(lambda x: x.sin() + 1)(torch.ones(3))
    assert "aten.sin" in graph.code and torch.equal(graph(torch.zeros(2)), torch.ones(2))
    graph.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)[0].target = torch.ops.aten.cos.default
    graph.recompile()
    assert "aten.cos" in graph.code and torch.equal(pickle.loads(pickle.dumps(graph))(torch.zeros(2)), torch.full((2,), 2.0))


def test_ops_that_are_composed_of_others() -> None:
    """Also ops of a library that is registered after the first search."""
    before = export_utils._collect_all_valid_cia_ops()
    with torch.library._scoped_library("quick_torch_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
        export_utils._materialize_cpp_cia_ops()
        assert "twice" in dir(torch.ops.quick_torch_test)
    assert before == export_utils._collect_all_valid_cia_ops()


def test_entries_of_the_cache_of_fake_tensors() -> None:
    """Cached entries give the same tensors of every kind as without them; the mode compares the two for each."""
    env = ShapeEnv()
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    FakeTensorMode.cache_clear()
    with FakeTensorMode(shape_env=env) as fake:
        fake.cache_crosscheck_enabled = True
        for dtype, trained in ((torch.float32, False), (torch.float32, True), (torch.complex64, False), (torch.int8, False)):
            for _ in range(2):
                x = fake.from_tensor(torch.ones(4, 6, dtype=dtype, requires_grad=trained), symbolic_context=context)
                kinds = [
                    x.t(),
                    x[1:, ::2],
                    x + 1,
                    x.conj(),
                    x.conj().t(),
                    x.conj() * 2,
                    torch.view_as_real(x.cfloat()),
                    x.expand(2, 4, 6),
                ]
                kinds += [x.cfloat().conj().imag, x.cfloat().conj().imag * 2, x.detach(), x.sum(0), x.bool(), x.clone()]
                with torch.inference_mode():
                    kinds += [x * 2, x.t(), (x * 2).t()]
                assert all(isinstance(k, torch.Tensor) for k in kinds)
    assert FakeTensorMode.cache_info().hits

"""Tests which sizes a captured graph serves."""

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from lamina.core.errors import CompileError
from lamina.frontend.capture.size_relations import SizeRelations
from lamina.frontend.fx.sizes import exact


def fakes(*sizes: int) -> list[torch.Tensor]:
    """Returns fake tensors of one dimension, whose sizes are symbols of their own."""
    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    return [mode.from_tensor(torch.empty(n), symbolic_context=context) for n in sizes]


def serves(relations: SizeRelations, *sizes: int) -> bool:
    return relations.serve({i: (f"t{i}", torch.empty(n, device="meta")) for i, n in enumerate(sizes)})


def test_what_the_model_asks_is_an_error_elsewhere() -> None:
    x, y = fakes(8, 8)
    assert x.shape[0] == y.shape[0] and x.shape[0] < 20
    relations = SizeRelations([x, y])
    assert serves(relations, 9, 9)
    with pytest.raises(
        ValueError, match="dimension 0 of argument 't0' and dimension 0 of argument 't1' must be equal; they are 9 and 7"
    ):
        serves(relations, 9, 7)
    with pytest.raises(ValueError, match="must be from 2 to 19; it is 20"):
        serves(relations, 20, 20)


def test_what_compiling_asks_is_another_graph_elsewhere() -> None:
    """Also for equality, although torch then replaces one symbol by the other."""
    x, y = fakes(8, 8)
    relations = SizeRelations([x, y])
    assert serves(relations, 9, 7)
    assert x.shape[0] == y.shape[0]
    assert serves(relations, 9, 9) and not serves(relations, 9, 7)


def test_an_int_that_several_guards_fix_is_a_number() -> None:
    """torch may know the number without substituting it: here of the last -n of t rows, if they are all rows."""
    env = ShapeEnv()
    n, t = (
        env.create_symintnode(env.create_unspecified_symbol(hint, source, DimDynamic.DYNAMIC), hint=hint, source=source)
        for hint, source in ((0, ConstantSource("n")), (17, ConstantSource("t")))
    )
    with pytest.raises(CompileError, match="the sign of"):
        exact(n + t)
    assert t >= 2 and -n >= 0 and 64 * t == 64 * n + 64 * t
    assert env.replacements == {} and exact(n) == 0 and exact(n + t) == exact(t)

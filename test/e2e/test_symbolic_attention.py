"""Tests that attention of symbolic sizes is one op, as with fixed sizes: one compilation serves all lengths, with eager's
values."""

import pytest
import torch
from sized_attention import ATTENTIONS, AttentionGraph, tokens
from sized_graphs import compilations, dynamic, observed
from torch import Tensor
from watched import compiled_programs, steps_of

from lamina.core.program import Program

__all__ = ["compilations"]
SIZES = ((3, 300), (2, 2), (5, 65), (1, 1), (2, 513))


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("graph", ATTENTIONS.values(), ids=ATTENTIONS.keys())
def test_one_compilation_serves_all_lengths(graph: AttentionGraph, train: bool, compilations: list[Program]) -> None:
    compiled = dynamic(graph.function)
    for batch, length in SIZES:
        x, lengths = tokens(batch, length, "cpu", torch.float32)
        results = [
            observed(f, [x.to(dtype, copy=True), lengths], train)
            for f, dtype in ((compiled, torch.float32), (graph.function, torch.float32), (graph.function, torch.float64))
        ]
        for mine, theirs, want in zip(*results, strict=True):
            if not isinstance(want, Tensor):
                continue
            off, of_eager = ((t.double() - want).abs().max() for t in (mine, theirs))
            assert off <= 4 * of_eager + 3e-6 * max(1, want.abs().max()), f"off by {off:.1e} at {batch} x {length}"
    assert len(compilations) <= 2 + 2 * train  # sizes of 1 are compiled apart


@pytest.mark.parametrize("name", [name for name, graph in ATTENTIONS.items() if name != "one query"])
def test_attention_is_one_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are large enough for one kernel to be faster; a mask that becomes the causal flag is not computed."""
    programs = compiled_programs(monkeypatch)
    torch._dynamo.reset()
    x, lengths = tokens(3, 700, "cpu", torch.float32)
    dynamic(ATTENTIONS[name].function)(x, lengths)
    steps = [step.name for step in steps_of(programs)]
    assert sum("attention" in step for step in steps) == 1
    made = {step for step in steps if "attention" not in step}
    assert made <= {"copy"} or not ATTENTIONS[name].causal  # to eager's layout

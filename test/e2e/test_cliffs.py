"""Runs graphs that tools/cliffs.py draws, small enough for a test: the errors of results and gradients are at most eager's."""

import math
from argparse import Namespace
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from lamina.tools.benchmarks.worker import largest_difference
from lamina.tools.cliff_finder.blocks import BLOCKS, draw_block
from lamina.tools.cliff_finder.classes import classes
from lamina.tools.cliff_finder.findings import Finding, by_operation, markdown, memory, summary
from lamina.tools.cliff_finder.grammar import Bounds, draw, result_shape
from lamina.tools.cliff_finder.graph import DrawnGraph, DrawnInput, DrawnNode
from lamina.tools.cliff_finder.models import models
from lamina.tools.cliff_finder.shrink import shrink, smaller_graphs
from lamina.tools.cliff_finder.worker import exact_results, runner
from lamina.tools.cliffs import _show

SMALL = Bounds(1 << 16, 2e7, ("float32", "float32", "bfloat16"), nodes=10)
SAMPLE = [f"sample {i}" for i in range(12)]
ERROR = {"float32": 1e-4, "bfloat16": 3e-2}
"""Of the largest value of a result. Operations in a row amplify what the first ones round: eager's error counts thrice."""


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_sample_is_right(seed: str) -> None:
    torch._dynamo.reset()
    graph = draw(seed, "cpu", SMALL)
    exact = exact_results(graph, 0, "cpu")
    errors = []
    for options in (None, {"backend": "lamina", "options": {"cache": False}}):
        model, arguments = graph.model(0, "cpu"), graph.arguments(0, "cpu")
        compiled = model if options is None else torch.compile(model, dynamic=False, **options)
        errors.append(largest_difference(runner(compiled, model, arguments, graph.mode)(), exact))
    eager, mine = errors
    assert not math.isfinite(eager) or mine <= max(3 * eager, ERROR[graph.dtype]), f"{mine} for eager's {eager} in {graph}"


@pytest.mark.parametrize("seed", SAMPLE[:4])
def test_the_same_seed_draws_the_same_graph(seed: str) -> None:
    graph = draw(seed, "cpu", SMALL)
    assert graph == draw(seed, "cpu", SMALL) == DrawnGraph.from_json(graph.to_json())
    assert len({str(draw(f"{seed} {i}", "cpu", SMALL)) for i in range(5)}) > 1


def test_inputs_have_their_layouts() -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (2, 3, 4, 5)
    made = {layout: DrawnInput(shape, layout=layout).make(generator, "cpu") for layout in ("channels_last", "transposed", "sliced")}
    assert all(t.shape == shape for t in made.values())
    assert made["channels_last"].stride() == (60, 1, 15, 3)
    assert made["transposed"].stride() == (60, 20, 1, 4)
    assert made["sliced"].stride() == (96, 32, 8, 1) and made["sliced"].storage_offset() == 1


def test_shrinking_finds_what_is_slow() -> None:
    names = ["relu", "tanh", "cumsum", "sigmoid", "square"]
    nodes = tuple(DrawnNode("{0}.cumsum(1)" if n == "cumsum" else f"torch.{n}({{0}})", (i,)) for i, n in enumerate(names))
    graph = DrawnGraph((DrawnInput((3, 5), layout="transposed"),), (*nodes, DrawnNode("{0} + {1}", (5, 1))), "gradients")
    least = shrink(graph, lambda g: any("cumsum" in n.expression for n in g.nodes))
    assert [n.expression for n in least.nodes] == ["{0}.cumsum(1)"]
    assert (least.inputs, least.mode) == ((DrawnInput((3, 5)),), "inference")
    assert all(result_shape(smaller) is not None for smaller in smaller_graphs(graph))


def test_classes_run() -> None:
    for device in ("cpu", "cuda"):
        assert [name for name, graph in classes(device).items() if result_shape(graph) is None] == []


def test_blocks_are_drawn() -> None:
    """Drawing needs neither transformers nor torchvision, which running the blocks does."""
    drawn = {draw_block(str(i), device).source for i in range(60) for device in ("cpu", "cuda")}
    assert len(drawn) > len(BLOCKS)


def finding(seed: str, mine: float | None, **others: float) -> Finding:
    graph = {"nodes": [{"expression": "{m}({0})", "operands": [0], "module": "nn.Conv2d(3, 3, 1, groups=3)"}], "dtype": "float32"}
    return Finding(
        seed, "a | b", graph, {**others, **({} if mine is None else {"lamina": mine})}, failures={} if mine else {"lamina": "no"}
    )


def test_findings_are_ranked_by_the_fastest_other() -> None:
    found = [
        finding("a", 2.0, eager=4.0, inductor=1.0),
        finding("b", 0.5, eager=1.0),
        finding("c", None, eager=1.0),
        Finding("d", failed="eager"),
    ]
    assert [f.ratio for f in found[:3]] == [2.0, 0.5, math.inf]
    assert replace(found[0], again=[1.5, 3.0]).ratio == 1.5
    numbers = summary(found)
    assert (numbers["graphs"], numbers["geometric mean"], numbers["above 1.15"], numbers["failed or wrong"]) == (3, 1.0, 2, 1)
    assert [row[:2] for row in by_operation(found)] == [("depthwise Conv2d", 2)]
    assert "| a | 2.00 | inductor |" in markdown(found) and "a \\| b" in markdown(found)


def test_memory_is_listed_where_it_was_measured() -> None:
    found = [Finding("a", peak={"eager": 3 << 20, "lamina": 2 << 20}), Finding("b", peak={"eager": 1})]
    assert memory(found) == "| seed | eager MiB | lamina MiB |\n| --- | ---: | ---: |\n| a | 3 | 2 |\n"
    assert memory(found[1:]) == ""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_models_are_written_as_python(device: str) -> None:
    """Without transformers and torchvision, which are only needed to build the models."""
    listed = models(device)
    assert {graph.mode for graph in listed.values()} == {"inference", "gradients"}
    for graph in listed.values():
        compile(graph.source, "<model>", "exec")
        assert DrawnGraph.from_json(graph.to_json()) == graph


def test_failures_and_wrong_results_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """If a contender fails, what was measured before is still reported."""
    wrong = replace(finding("b", 1.0, eager=1.0), errors={"lamina": 0.5})
    found = [finding("a", None, eager=1.0), wrong, finding("c", 1.0, eager=1.0), Finding("d", failures={"lamina": ""})]
    assert [f.fault for f in found] == ["no", "error 5.0e-01, eager's nan", "", "failed"]
    assert _show(Namespace(what="graphs"), {f.seed: f for f in found[:3]}, Console()) == 1
    shown = capsys.readouterr().out
    assert "a: no in" in shown and "b: error 5.0e-01" in shown and "c:" not in shown


def test_a_gpu_may_round_what_convolutions_multiply() -> None:
    """`peak` is only measured on a GPU."""
    rounded = replace(finding("a", 1.0, eager=1.0), errors={"lamina": 3e-4, "eager": 1e-6})
    assert rounded.wrong and not replace(rounded, peak={"lamina": 1}).wrong
    assert replace(rounded, peak={"lamina": 1}, errors={"lamina": 1e-2, "eager": 1e-6}).wrong

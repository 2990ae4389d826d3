"""Tests `bench.py --target nvvm` on invented figures, and its parts that need no GPU: workloads' shapes, errors, XLA's profile."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import lamina
from lamina.tools.benchmarks import contestants, gpu_worker, timing
from lamina.tools.benchmarks.gpu_workloads import GPU_WORKLOADS
from lamina.tools.benchmarks.suites import SUITES, plot, store
from lamina.tools.benchmarks.tables import figures, roofline_plot
from lamina.tools.benchmarks.workloads import Workload

GPU = SUITES["nvvm"]
CALL = "call on 64x64"
ROOFS = {"bandwidth": 4e12, "flops": 8e14}
COLD = {"eager": 0.1, "torch.compile": 9.0, "reduce-overhead": 2.0, "lamina": 2.0}
ERRORS = {"eager": 2e-3, "torch.compile": 1e-3, "lamina": 1.5e-3}
KERNEL = {
    "kind": "kernel", "roofs": {"bandwidth": 4e12}, "cold": COLD, "errors": ERRORS,
    "times": {"eager": 200e-6, "torch.compile": 160e-6, "reduce-overhead": 170e-6, "lamina": 70e-6}, "busy": {"XLA": 82e-6, "lamina": 68e-6},
    "work": {"bytes": 268_000_000, "flops": 500_000_000}, "made": {"kernels": 1, "calls": 0, "fallbacks": 0, "fallback_ops": []}, "notes": {},
}  # fmt: skip
MODEL = {
    **KERNEL, "kind": "model", "roofs": ROOFS,
    "times": {"eager": 4e-3, "torch.compile": 3e-3, "reduce-overhead": 0.8e-3, "lamina": 1e-3, "lamina graphs": 0.68e-3},
    "work": {"bytes": 200_000_000, "flops": 400_000_000_000},
    "errors": {**ERRORS, "lamina graphs": 1.6e-3}, "made": {"kernels": 60, "calls": 80, "fallbacks": 1, "fallback_ops": ["aten.foo"]},
}  # fmt: skip
NO_LAMINA = {**KERNEL, "times": {"eager": 200e-6}, "errors": {"eager": 1e-7}, "cold": {}, "notes": {"lamina": "CompileError: no"}}
del NO_LAMINA["made"], NO_LAMINA["busy"], MODEL["busy"]
FOUND: dict[str, Any] = {
    "softmax bf16 16384x4096": KERNEL,
    "BERT-base b1 s128": MODEL,
    "GELU bf16 8192^2": NO_LAMINA,
    "ResNet-50 b64": {"failed": "took more than 150 s"},
    CALL: {
        "kind": "call",
        "times": {"eager": 45e-6, "lamina.compile": 11e-6, "null": 25e-6, "lamina": 28e-6, "lamina above null": 3e-6},
    },
}


def test_floors() -> None:
    assert figures.floor(KERNEL) == pytest.approx(67e-6)
    assert figures.floor(MODEL) == pytest.approx(500e-6)  # its products, not its 50 us of traffic
    assert figures.floor({**MODEL, "roofs": {"bandwidth": 4e12}}) == pytest.approx(50e-6)


def test_goals() -> None:
    name = "softmax bf16 16384x4096"
    assert figures.goals(FOUND, GPU.workloads) == [
        (f"{name}: at most 1.00 of the best of torch.compile, reduce-overhead (is 0.44)", True),
        (f"{name}: at most 0.42 of torch.compile (is 0.44)", False),
        (f"{name}: at most 1.00 of XLA, by how long the device is busy (is 0.83)", True),
        (f"{name}: at least 0.88 of copy bandwidth, by speed (is 0.96)", True),
        ("BERT-base b1 s128: at most 0.90 of reduce-overhead (is 0.85)", True),
        ("BERT-base b1 s128: at most 0.33 of torch.compile, compiling cold (is 0.22)", True),
        ("GELU bf16 8192^2: at most 1.00 of the best of torch.compile, reduce-overhead (not measured)", False),
        ("GELU bf16 8192^2: at least 0.88 of copy bandwidth, by speed (not measured)", False),
        ("ResNet-50 b64: runs", False),
        (f"{CALL}: lamina.compile at most 10.0 us (is 11.0 us)", False),
        (f"{CALL}: lamina above null at most 5.0 us (is 3.0 us)", True),
    ]


def test_a_goal_without_a_rival_is_missed() -> None:
    name = "softmax bf16 16384x4096"
    alone = {name: {**KERNEL, "times": {"lamina": 1e-6}, "busy": {}}}
    reached = dict(figures.goals(alone, GPU.workloads))
    assert reached[f"{name}: at most 0.42 of torch.compile (not measured)"] is False
    assert reached[f"{name}: at most 1.00 of XLA, by how long the device is busy (not measured)"] is False


def test_a_larger_model_has_eager_for_a_rival() -> None:
    model, name = {**MODEL, "times": {"eager": 1e-3, "torch.compile": 2e-3, "lamina": 1.1e-3}}, "BERT-base b16 s512"
    goal = f"{name}: at most 1.00 of the best of eager, torch.compile (is 1.10)"
    assert (goal, False) in figures.goals({name: model}, GPU.workloads)


def test_tables() -> None:
    text = figures.markdown(GPU.tables(FOUND), "a GPU", "a command")
    assert "Made by `a command` on a GPU" in text
    row = "| softmax bf16 16384x4096 | 200.0 | 160.0 | 170.0 | 70.0 | 67.0 | 96% | 0.44 | 0.44 | 1.5e-03 | 2.0e-03 | 1 + 0 |"
    assert f"{row} 82.0 | 68.0 | 0.83 |" in text
    made = "60 + 80 + 1 fallbacks (aten.foo)"
    assert (
        f"| BERT-base b1 s128 | 4.000 | 3.000 | 0.800 | 1.000 | 0.680 | 0.500 | 74% | 0.85 | 0.85 | 1.6e-03 | 2.0e-03 | {made} |"
        in text
    )
    assert "| GELU bf16 8192^2 | 200.0 | - | - | - | 67.0 | - | - | - | - | 1.0e-07 | - | - | - | - |" in text
    assert "| softmax bf16 16384x4096 | 9.00 | - | 2.00 | 0.22 |" in text
    assert "| GELU bf16 8192^2 | lamina | CompileError: no |" in text
    assert "| ResNet-50 b64 | all | took more than 150 s |" in text
    assert "| torch.compile, Lamina | 28.0 |" in text


def test_rows() -> None:
    name = "softmax bf16 16384x4096"
    line = figures.row(name, KERNEL, GPU.workloads)
    assert line.startswith(f"{name}: eager 200.0 us, ") and line.endswith("; at most 0.42 of torch.compile (is 0.44)")
    assert "by how long the device is busy: XLA 82.0 us, lamina 68.0 us; compiling cold: eager 100.00 ms" in line
    assert "floor 67.0 us; made 1 + 0; error 1.5e-03 (eager 2.0e-03); " in line
    assert figures.row("GELU bf16 8192^2", NO_LAMINA, GPU.workloads).endswith("lamina: CompileError: no")


def test_points_under_the_roof() -> None:
    found = {(name, contestant): rate for name, _, contestant, _, rate in roofline_plot.points(FOUND)}
    assert found["BERT-base b1 s128", "lamina"] == pytest.approx(400e9 / 0.68e-3)
    assert found["BERT-base b1 s128", "torch.compile"] == pytest.approx(400e9 / 0.8e-3)
    assert roofline_plot.roofs(FOUND) == (4e12, 8e14)
    assert roofline_plot.draw({"x": {"failed": "why"}}, Path("unused")) == "no picture: nothing to draw"


def test_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "figures.png"
    assert roofline_plot.draw(FOUND, file) == f"written: {file}"
    assert file.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    store(tmp_path, FOUND, replace(SUITES["nvvm"], machine=lambda: "a GPU"))
    assert plot(tmp_path, SUITES["nvvm"]) == "no picture: matplotlib is not installed (pip install 'lamina[bench]')"
    assert json.loads((tmp_path / "figures-gpu.json").read_text())["machine"] == "a GPU"


@pytest.mark.parametrize("name", [name for name, w in GPU_WORKLOADS.items() if w.kind == "kernel"])
def test_kernels_have_results(name: str) -> None:
    with FakeTensorMode():
        model, inputs = GPU_WORKLOADS[name].make("cpu")
        assert all(isinstance(t, Tensor) for t in torch.utils._pytree.tree_leaves(model(*inputs)))
    jax_side = Path(gpu_worker.__file__).with_name("xla.py").read_text()
    assert f"def {model.__name__}(" in jax_side


@pytest.mark.parametrize("function", [w.make for w in GPU_WORKLOADS.values() if w.kind == "kernel"])
def test_xla_computes_the_same(function: Any) -> None:
    pytest.importorskip("jax")
    from lamina.tools.benchmarks import xla

    with FakeTensorMode():
        model, shapes = function("cpu")
    inputs = [torch.randint(8, (8,)) if x.dtype is torch.int64 else torch.randn([8, 4096][-x.dim() :]).to(x.dtype) for x in shapes]
    if model.__name__ == "transpose_add_relu":
        inputs[1] = inputs[1].reshape(4096, 8)
    given = xla.as_tensors(xla.compiled(model.__name__, inputs)())
    assert contestants.difference(given, gpu_worker.in_double(model, tuple(inputs))) < 1e-2


def test_operations_of_attention_with_fewer_heads_of_keys() -> None:
    query, key = torch.empty(2, 8, 16, 4), torch.empty(2, 2, 16, 4)
    assert gpu_worker.attention_flops(query.shape, key.shape, key.shape) == 2 * 2 * (2 * 8 * 16 * 16 * 4)


def test_a_profile_is_parted_by_its_flushes() -> None:
    xla = pytest.importorskip("lamina.tools.benchmarks.xla", reason="jax is not installed", exc_type=ImportError)
    ran = [
        (30.0, "flush", 38.0),
        (0.0, "flush", 9.0),
        (10.0, "a", 11.0),
        (11.0, "flush", 13.0),
        (40.0, "a", 44.0),
        (41.0, "b", 43.0),
    ]
    assert xla.by_call(ran, 2) == [3.0, 4.0]
    with pytest.raises(ValueError, match="has 2 calls, 2 with kernels, where 3 were made"):
        xla.by_call(ran, 3)


def measured(model: Any, inputs: tuple[Any, ...], kind: str, **given: Any) -> dict[str, Any]:
    workload = Workload(lambda device: (model, inputs), kind, **given)
    roofs = {"bandwidth": 1e12, "flops": 1e12} if kind == "model" else {"bandwidth": 1e12}
    said: list[dict[str, Any]] = []

    def clock(runs: Any) -> timing.Timed:
        return timing.in_turns({name: lambda run=run: [1e-3, 3e-3] if run() is not None else [] for name, run in runs.items()}, 2)

    with torch.no_grad():
        gpu_worker.measure(workload, model, inputs, roofs=roofs, clocks={"times": clock}, say=said.append)
    return said[0]


def doubled(x: Tensor) -> Tensor:
    return (x + 1) * 2


@pytest.fixture
def without_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile needs no compiler on CPU tensors."""
    monkeypatch.setattr(torch, "compile", lambda model, mode=None: model)


@pytest.mark.usefixtures("without_inductor")
def test_a_kernel_is_measured() -> None:
    found = measured(doubled, (torch.randn(64, 64),), "kernel", reads=2)
    assert found["work"]["bytes"] == 3 * 64 * 64 * 4 and found["work"]["flops"] == 2 * 64 * 64
    assert found["times"]["lamina"] == 2e-3 and found["errors"]["lamina"] < 1e-6 and found["cold"]["lamina"] > 0
    assert found["made"]["kernels"] == 1 and found["made"]["fallbacks"] == 0


@pytest.mark.usefixtures("without_inductor")
def test_a_model_is_measured_and_stays_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).bfloat16()
    found = measured(model, (torch.randn(8, 64, dtype=torch.bfloat16),), "model")
    assert found["work"] == {"bytes": 2 * (64 * 64 + 64 + 8 * 64 + 8 * 64), "flops": 2 * 8 * 64 * 64}
    assert set(found["times"]) == {"eager", "torch.compile", "reduce-overhead", "lamina", "lamina graphs"}
    assert model[0].weight.dtype is torch.bfloat16 and found["made"]["calls"] == 1
    json.dumps(found)


@pytest.mark.usefixtures("without_inductor")
def test_a_contestant_that_fails_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise lamina.CompileError("not this one\nand more")

    monkeypatch.setattr(lamina, "compile", refuses)
    found = measured(doubled, (torch.randn(64, 64),), "kernel")
    assert found["notes"]["lamina"] == "CompileError: not this one" and found["times"]["eager"] > 0
    assert "made" not in found

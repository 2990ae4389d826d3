"""Tests `bench.py --suite hot` on invented figures, and its parts that need no GPU: workloads' shapes, the choice of our best
kernel."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lamina
from lamina.tools.benchmarks import contestants, gpu_worker, timing
from lamina.tools.benchmarks.hot_workloads import HOT_WORKLOADS, tuned
from lamina.tools.benchmarks.serve import Worker
from lamina.tools.benchmarks.suites import SUITES, store
from lamina.tools.benchmarks.tables import figures
from lamina.tools.benchmarks.workloads import Goal, Workload
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

HOT = SUITES["hot"]
TUNING = "tuning of BERT-base b16 s512"
OURS, WORSE = "triton{m=128 n=256}", "triton{m=64 n=64}"
CHOICE = {
    "what": "mm 4096x4096 by 4096x4096", "model": "library", "chosen": "library",
    "seconds": {"library": 170e-6, OURS: 180e-6}, "dropped": {WORSE: "wrong numbers"},
}  # fmt: skip
ALONE = {
    "kind": "op", "notes": {},
    "roofs": {"bandwidth": 4e12, "flops": 8e14}, "work": {"bytes": 100_000_000, "flops": 136_000_000_000},
    "cold": {}, "errors": {"eager": 2e-3, "lamina": 1e-3, "lamina tuned": 1.5e-3}, "choices": [CHOICE],
    "times": {"eager": 175e-6, "torch.compile": 174e-6, "lamina": 176e-6, "lamina tuned": 175.5e-6, "lamina own": 190e-6},
}  # fmt: skip
GELU = {
    **ALONE, "choices": [],
    "times": {"eager": 210e-6, "torch.compile": 220e-6, "max-autotune": 205e-6, "lamina": 200e-6, "lamina tuned": 190e-6},
}  # fmt: skip
ROWS = {
    **GELU,
    "wall": {"eager": 29e-6, "torch.compile": 60e-6, "lamina": 20e-6, "lamina tuned": 18e-6},
}  # fmt: skip
DECODE = {**GELU, "times": {"eager": 200e-6, "cuDNN": 90e-6, "lamina tuned": 28e-6}, "choices": [CHOICE]}
FOUND: dict[str, Any] = {
    "4096x4096x4096": ALONE,
    "4096x4096x4096 bias+GELU": GELU,
    "Linear 768->3072+GELU, 32 rows": ROWS,
    "decode b32 q1 k8192 h32/4 d128": DECODE,
    "conv3x3+BN+ReLU 64x64x56x56": {"failed": "took more than 120 s"},
    TUNING: {"kind": "tuning", "times": {"off": 2.0, "quick": 31.0, "cached": 2.3}, "notes": {}, "choices": [CHOICE] * 4},
}


def test_goals() -> None:
    rows = "Linear 768->3072+GELU, 32 rows"
    assert figures.goals(FOUND, HOT.workloads) == [
        ("4096x4096x4096: lamina tuned at least 1.00 of eager, by speed (is 1.00)", True),
        ("4096x4096x4096: lamina own at least 0.95 of eager, by speed (is 0.92)", False),
        ("4096x4096x4096 bias+GELU: lamina tuned at most 0.95 of the best of eager, torch.compile, max-autotune (is 0.93)", True),
        (f"{rows}: lamina tuned at most 0.50 of torch.compile (is 0.86)", False),
        (f"{rows}: lamina tuned at most 1.00 of eager (is 0.90)", True),
        (f"{rows}: lamina tuned at most 0.50 of torch.compile, as a caller sees it (is 0.30)", True),
        (f"{rows}: lamina tuned at most 1.00 of eager, as a caller sees it (is 0.62)", True),
        ("decode b32 q1 k8192 h32/4 d128: lamina tuned at least 0.85 of copy bandwidth, by speed (is 0.89)", True),
        ("conv3x3+BN+ReLU 64x64x56x56: runs", False),
        (f"{TUNING}: quick at most 60.00 s (is 31.00 s)", True),
        (f"{TUNING}: cached at most 1.10 of off (is 1.15)", False),
    ]


def test_a_goal_without_figures_is_missed() -> None:
    x, y = "4096x4096x4096", "decode b32 q1 k8192 h32/4 d128"
    bare = {x: {**ALONE, "times": {"eager": 1e-6}}, y: {**DECODE, "times": {}}}
    assert figures.goals(bare, HOT.workloads) == [
        (f"{x}: lamina tuned at least 1.00 of eager, by speed (not measured)", False),
        (f"{x}: lamina own at least 0.95 of eager, by speed (not measured)", False),
        (f"{y}: lamina tuned at least 0.85 of copy bandwidth, by speed (not measured)", False),
    ]


def test_tables() -> None:
    text = figures.markdown(HOT.tables(FOUND), "a GPU", "a command")
    line = "| 4096x4096x4096 | 175.0 | 174.0 | - | - | 176.0 | 175.5 | 190.0 | 170.0 | 1.01 | 1.01 | 1.09 | library | 1.5e-03 |"
    assert line in text
    assert "| decode b32 q1 k8192 h32/4 d128 | 200.0 | - | - | cuDNN 90.0 | - | 28.0 | - |" in text
    assert "| Linear 768->3072+GELU, 32 rows | 29.0 | 60.0 | 20.0 | 18.0 | 0.30 | 0.62 |" in text
    assert f"| {TUNING} | 4 | 31.0 | 2.00 | 2.30 | 1.15 |" in text
    times = f"library 170.0, {OURS} 180.0 | {WORSE}: wrong numbers |"
    assert f"| 4096x4096x4096 | mm 4096x4096 by 4096x4096 | library | library | {times}" in text
    assert "| conv3x3+BN+ReLU 64x64x56x56 | all | took more than 120 s |" in text


def test_rows() -> None:
    x = "4096x4096x4096"
    line = figures.row(x, ALONE, HOT.workloads)
    assert "lamina own 190.0 us; floor 170.0 us; chosen library; error 1.5e-03 (eager 2.0e-03); lamina own at least" in line
    assert figures.row(TUNING, FOUND[TUNING], HOT.workloads).startswith(
        f"{TUNING}: off 2.00 s, quick 31.00 s, cached 2.30 s; chosen"
    )
    rows = "Linear 768->3072+GELU, 32 rows"
    assert "as a caller sees it: eager 29.0 us" in figures.row(rows, ROWS, HOT.workloads)


def test_figures_are_stored(tmp_path: Path) -> None:
    data, page = store(tmp_path, FOUND, replace(HOT, machine=lambda: "a GPU"))
    assert data.name == "figures-hot.json" and list(json.loads(data.read_text())["workloads"]) == [
        n for n in HOT.workloads if n in FOUND
    ]
    assert "--suite hot --store` on a GPU" in page.read_text()


@pytest.mark.parametrize("name", [name for name, workload in HOT_WORKLOADS.items() if workload.kind == "op"])
def test_workloads_have_results(name: str) -> None:
    model, inputs = HOT_WORKLOADS[name].make("meta")
    assert isinstance(model(*inputs), Tensor)


def test_what_has_no_float64_of_its_own_says_what_it_is() -> None:
    workload = HOT_WORKLOADS["f8 8192x4096x4096"]
    x, w = (torch.randn(16, 16).to(torch.float8_e4m3fn) for _ in range(2))
    half = torch.tensor(0.5)
    assert workload.exact is not None
    exact = gpu_worker.in_double(workload.exact, (x, w, half, half))
    assert exact.dtype == torch.float64 and torch.equal(exact, x.double() @ w.double().t() / 4)


def test_causal_attention_written_out() -> None:
    q, k, v = torch.randn(3, 1, 2, 8, 4)
    written, library = (
        HOT_WORKLOADS["causal attention written out b4 h16 s2048 d128"],
        HOT_WORKLOADS["causal SDPA b4 h16 s4096 d128"],
    )
    functions = written.make("meta")[0], library.make("meta")[0]
    torch.testing.assert_close(functions[0](q, k, v), functions[1](q, k, v))


def record(**times: float) -> Record:
    question = Question("key", "a product", ("library", OURS, WORSE))
    named = {"library": times["library"], OURS: times["ours"], WORSE: times["worse"]} if times else {"library": 1.0}
    return Record(question, Identity("gpu", "versions"), Answer("library", tuple(named.items())), datetime.now(UTC))


def test_the_best_kernel_of_ours_is_pinned_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    known = record(library=1.0, ours=2.0, worse=3.0)
    Store().put(known.question, known.identity, known.answer)
    compiled: list[tuple[str, str]] = []

    def compile(model: Any, inputs: Any, options: lamina.Options) -> Any:
        compiled.append((options.tune, Store().records()[0].answer.winner))
        return model

    monkeypatch.setattr(lamina, "compile", compile)
    pins = contestants.fastest_of_lamina(Store().records())
    assert contestants.pinned(pins, torch.neg, (torch.ones(2),))().tolist() == [-1, -1]
    assert compiled == [("cached", OURS)] and Store().records()[0].answer.winner == "library"
    assert contestants.fastest_of_lamina([record()]) == {}


def measured(workload: Workload, monkeypatch: pytest.MonkeyPatch, store: Path) -> list[dict[str, Any]]:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(store))
    monkeypatch.setattr(torch, "compile", lambda model, mode=None: model)  # torch.compile needs no compiler on CPU tensors
    said: list[dict[str, Any]] = []
    clocks: dict[str, gpu_worker.Clock] = {"times": clock, "wall": clock}
    with torch.no_grad():
        model, inputs = workload.make("cpu")
        roofs = {"bandwidth": 1e12, "flops": 1e12}
        gpu_worker.measure(workload, model, inputs, roofs=roofs, clocks=clocks, say=said.append)
    json.dumps(said)
    return said


def clock(runs: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    return {name: 2e-3 for name, run in runs.items() if run() is not None}, {}


def small(*goals: Goal) -> Workload:
    return Workload(lambda device: (torch.mm, (torch.randn(8, 8), torch.randn(8, 8))), "op", goals, others={"other": torch.mm})


def test_an_op_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (found,) = measured(small(tuned(1.0, "eager")), monkeypatch, tmp_path / "store")
    assert set(found["times"]) == {"eager", "other", "lamina", "lamina tuned", "torch.compile"} == set(found["wall"])
    assert found["times"]["lamina"] == 2e-3 and found["errors"]["lamina tuned"] < 1e-6 and found["notes"] == {}
    assert found["work"] == {"bytes": 3 * 8 * 8 * 4, "flops": 2 * 8**3} and found["choices"] == []
    assert figures.goals({"x": found}, {"x": small(tuned(1.0, "eager"))}) == [
        ("x: lamina tuned at most 1.00 of eager (is 1.00)", True)
    ]


def test_figures_without_autotuning_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, after = measured(small(tuned(0.95, "eager", "max-autotune")), monkeypatch, tmp_path / "store")
    assert before["notes"] == {"max-autotune": gpu_worker.UNFINISHED} and "max-autotune" not in before["times"]
    assert after["notes"] == {} and "max-autotune" in after["times"]


def worker(text: str, limit: float = 60) -> dict[str, Any]:
    """Returns the answer of a worker that runs `text`."""
    with Worker([sys.executable, "-c", f"import sys, time; sys.stdin.readline(); {text}"]) as started:
        return started.ask({}, limit)


def test_what_a_worker_printed_counts_when_it_is_ended() -> None:
    printed = """print('{"notes": {"a": "b"}, "kind": "op"}', flush=True)"""
    assert worker(f"{printed}; time.sleep(600)", limit=2)["notes"] == {"a": "b", "the process": "took more than 2 s"}
    assert worker(f"{printed}; sys.exit('gone')")["notes"] == {"a": "b", "the process": "gone"}
    assert worker("print('{}', flush=True); sys.exit('gone')") == {"notes": {"the process": "gone"}}
    assert worker("sys.exit('gone')") == {"failed": "gone"} and worker("sys.exit(3)") == {"failed": "exit status 3"}
    assert worker(f"{printed}; print()") == {"notes": {"a": "b"}, "kind": "op"}


def test_another_worker_takes_the_place_of_one_that_ended(tmp_path: Path) -> None:
    once = "import os, sys; [print(os.getpid(), '\\n', flush=True) for line in sys.stdin]"
    with Worker([sys.executable, "-c", once], log=tmp_path / "log", life=2) as started:
        first, second, third = (started.ask({}, 60) for _ in range(3))
        assert first == second != third
        started.kill()
        assert "failed" in started.ask({}, 60) and started.ask({}, 60) not in (first, third)


class Event:
    """Of a device that takes a millisecond for everything."""

    now = 0

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0

    def record(self) -> None:
        Event.now += 1
        self.at = Event.now

    def elapsed_time(self, later: "Event") -> float:
        return later.at - self.at


def test_calls_in_turns_of_changing_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(timing, "flusher", lambda: lambda: None)
    called: list[str] = []

    def fails() -> None:
        raise RuntimeError("gone")

    runs = {"a": lambda: called.append("a"), "b": lambda: called.append("b"), "c": lambda: called.append("c"), "bad": fails}
    times, failed = timing.call_by_call(runs, 0.0)
    assert times == {"a": 1e-3, "b": 1e-3, "c": 1e-3} and failed == {"bad": "RuntimeError: gone"}
    rounds = ["".join(called[i : i + 3]) for i in range(0, len(called), 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds) and len(set(rounds)) > 2

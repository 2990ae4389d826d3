"""Runs opt-driver and the cache of programs on mutated inputs."""

import json
import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from mutations import damaged, restructured
from torch import Tensor, fx

from lamina.core.options import Options
from lamina.frontend.compiling import stages
from lamina.frontend.entry.export import inference_graph
from lamina.runtime.cache import Cache, Entry


def test_opt_driver_answers_in_lines(seed: int, run_module: list[str]) -> None:
    """Each error is one line and no process dies; failures are printed with the input that causes them."""
    how = [f"--seed={seed}", "--cases=250", "--seconds=20"]
    command = [*run_module, "fuzz_driver", *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, cwd=Path(__file__).parent)
    assert done.returncode == 0, f"fuzz_driver.py {' '.join(how)}\n{done.stdout}{done.stderr}"


Driver = Callable[..., tuple[int, str]]


@pytest.fixture
def driver(run_module: list[str]) -> Driver:
    def run(*arguments: str, text: str = "") -> tuple[int, str]:
        command = [*run_module, "lamina.tools.opt_driver", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    return run


def test_regions_nest_as_deep_as_the_parser_reads(driver: Driver) -> None:
    text = "func.func @f(%c: i1) {\n" + "scf.if %c {\n" * 3000 + "}\n" * 3000 + "return\n}\n"
    pipeline = "lamina-demote-f64,lamina-fold-constants,lamina-simplify,lamina-cse,lamina-dce,lamina-fuse"
    status, said = driver("-", "-o", os.devnull, f"--pass-pipeline={pipeline}", text=text)
    assert (status, said) == (0, "")


def test_nests_of_a_pipeline_are_counted(driver: Driver) -> None:
    pipeline = "func.func(" * 1500 + "cse" + ")" * 1500
    status, said = driver("-", f"--pass-pipeline={pipeline}", text="func.func @f() { return }")
    assert (status, said) == (1, "<pipeline>:1:1010: error: more than 100 nests inside one another\n")


def rows(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(x @ w, -1) + 1


def several(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.sin(x) * y, x.t(), (x + y).sum(0)


@pytest.fixture
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[fx.GraphModule, tuple[Tensor, ...], list[Tensor], Path]]:
    """Returns graphs with inputs, correct results and their cache entries."""
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    found = []
    for function, inputs in ((rows, (torch.randn(7, 5), torch.randn(5, 9))), (several, (torch.randn(7, 5), torch.randn(7, 5)))):
        gm = inference_graph(function, inputs)
        before = set(tmp_path.glob("*.lamina"))
        results = list(stages.compile_part(gm)(*inputs))
        (path,) = set(tmp_path.glob("*.lamina")) - before
        found.append((gm, inputs, results, path))
    return found


def test_broken_entries_make_no_wrong_result(graphs: Any, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """Entries with missing or changed bytes, and with metadata of other types under a correct hash."""
    random = Random(seed)
    caplog.set_level(logging.ERROR, "lamina")
    for number in range(60):
        gm, inputs, right, path = random.choice(graphs)
        whole, key = path.read_bytes(), path.name.removesuffix(".lamina")
        if random.random() < 0.4:
            path.write_bytes(damaged(whole, random))
        else:
            entry = Cache().get(key)
            assert entry is not None
            change: Callable[[Any], Any] = lambda value: restructured(value, random)  # noqa: E731
            meta, program = dict(entry.meta), entry.program_json
            if random.random() < 0.5:
                meta = change(meta)
            else:
                program = json.dumps(change(json.loads(program)))
            Cache().put(key, Entry(program, entry.object, meta))
        got = stages.compile_part(gm, options=Options())(*inputs)
        for a, b in zip(got, right, strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride(), f"case {number}"
        path.write_bytes(whole)

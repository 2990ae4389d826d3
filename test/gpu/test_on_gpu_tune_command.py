"""Tests `lamina tune` with an example on a GPU: compilations and explain then use what it measured."""

from pathlib import Path

import pytest
import torch

import lamina
from lamina.tools import lamina_command
from lamina.tools.driver.model import build
from lamina.tune.store.store import Store

FILE = Path(__file__).parents[2] / "examples" / "models" / "mlp.py"


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "tuning.json"))
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path / "cache"))


def test_a_model_is_tuned_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert lamina_command.main(["tune", f"{FILE}:mlp_bf16"]) == 0
    first, said = capfd.readouterr()
    records = Store().records()
    asked = len(records)
    assert asked >= 2 and f"{asked} of {asked} ops measured now" in said
    assert all(record.answer.winner and len(record.answer.times) + len(record.answer.dropped) >= 3 for record in records)
    assert first.count("chosen") == asked
    assert lamina_command.main(["tune", f"{FILE}:mlp_bf16"]) == 0
    again, said = capfd.readouterr()
    assert f"0 of {asked} ops measured now" in said and again == first


def test_what_was_learned_is_used_and_explained() -> None:
    assert lamina_command.main(["tune", f"{FILE}:mlp_bf16"]) == 0
    model, inputs = build(str(FILE), "mlp_bf16")
    model, inputs = model.cuda(), tuple(x.cuda() for x in inputs)
    found = lamina.explain(model, inputs, show=False)
    (graph,) = found.graphs
    answers = sorted((record.question.what, record.answer.winner) for record in Store().records())
    assert sorted((choice.what, choice.chosen) for choice in graph.choices) == answers
    assert all(choice.seconds for choice in graph.choices) and graph.products == ""
    compiled = lamina.compile(model, inputs)
    with torch.no_grad():
        got = compiled(*inputs).double()
        wanted = model.double()(*(x.double() for x in inputs))
    assert (got - wanted).norm() / wanted.norm() < 2e-2


def test_an_untuned_model_names_the_default() -> None:
    model, inputs = build(str(FILE), "mlp_bf16")
    found = lamina.explain(model.cuda(), tuple(x.cuda() for x in inputs), show=False)
    assert "by the cost model (untuned)" in found.graphs[0].products

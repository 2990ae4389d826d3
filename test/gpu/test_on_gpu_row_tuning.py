"""Tests tuning of softmax, LayerNorm and cross entropy on a GPU: every choice is correct, and the store answers the second time."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamina
from lamina.core.options import Tune
from lamina.schedules.rows import MODEL
from lamina.tune.store.records import Record
from lamina.tune.store.store import Store

BF16 = torch.bfloat16


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def add_layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x + y, w.shape, w, b)


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape, dtype=dtype, device="cuda")


CASES: dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]]]] = {
    "softmax": (softmax, lambda: [random(4096, 4096)]),
    "odd softmax": (softmax, lambda: [random(2048, 4099)]),
    "long softmax": (softmax, lambda: [random(256, 128256, dtype=torch.float32)]),
    "norm": (add_layer_norm, lambda: [random(8192, 768), random(8192, 768), random(768), random(768)]),
    "cross entropy": (F.cross_entropy, lambda: [random(512, 128256), torch.randint(128256, (512,), device="cuda")]),
}


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "tuning.json"))


def result(fn: Callable[..., Tensor], inputs: list[Tensor], tune: Tune) -> Tensor:
    compiled = lamina.compile(fn, tuple(inputs), options=lamina.Options(tune=tune, cache=False))
    found = compiled(*inputs)
    assert isinstance(found, Tensor)
    return found


def check(found: Tensor, fn: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    exact = fn(*(x.double() if x.is_floating_point() else x for x in inputs))
    bound = 1e-2 if found.dtype == BF16 else 1e-5
    torch.testing.assert_close(found.double(), exact, rtol=bound, atol=bound * float(exact.abs().max()))


def asked() -> list[Record]:
    return [record for record in Store().records() if MODEL in record.question.candidates]


@pytest.mark.parametrize("name", CASES)
def test_tuned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, make = CASES[name]
    inputs = make()
    check(result(fn, inputs, "quick"), fn, inputs)
    (record,) = asked()
    kinds = {candidate.partition("{")[0] for candidate, _ in record.answer.times}
    assert kinds == {"simt", "triton"} and not record.answer.dropped

    def measured(*_: object, **__: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("lamina.tune.decide._measure", measured)
    check(result(fn, inputs, "quick"), fn, inputs)
    check(result(fn, inputs, "cached"), fn, inputs)


@pytest.mark.parametrize("name", ["softmax", "long softmax", "cross entropy"])
def test_every_candidate_is_right(name: str) -> None:
    """No candidate is dropped, for wrong numbers or otherwise; a pinned choice is followed."""
    fn, make = CASES[name]
    inputs = make()
    check(result(fn, inputs, "full"), fn, inputs)
    (record,) = asked()
    assert not record.answer.dropped and {n for n, _ in record.answer.times} == set(record.question.candidates)
    for kind in ("simt", "triton"):
        Store().pin(record.id, [c for c in record.question.candidates if c.startswith(kind)][-1])
        check(result(fn, inputs, "cached"), fn, inputs)

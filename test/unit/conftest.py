"""Fixtures that stand in for a GPU: its driver, and the device that tuning measures on."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import fake_gpu
import pytest
import torch
from fake_gpu import FakeGpu

from lamina.tune.question import Identity
from lamina.tune.store.store import Store


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    return fake_gpu.build(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def gpu(library: FakeGpu) -> Iterator[FakeGpu]:
    yield from fake_gpu.clean(library)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Identity:
    """The GPU that tuning finds."""
    found = Identity("a GPU, 132 SMs", "versions")
    monkeypatch.setattr(Identity, "of_gpu", staticmethod(lambda index: found))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return found


@pytest.fixture
def store(tmp_path: Path, here: Identity) -> Store:
    """An empty tuning store for the fake GPU."""
    return Store(tmp_path / "store.json")

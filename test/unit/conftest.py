"""The stand-in for a GPU's driver that tests of the runtime share."""

from collections.abc import Iterator

import fake_gpu
import pytest
from fake_gpu import FakeGpu


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    return fake_gpu.build(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def gpu(library: FakeGpu) -> Iterator[FakeGpu]:
    yield from fake_gpu.clean(library)

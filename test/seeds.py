"""Seeds of random tests: one number repeats a run, or any part of it.

torch, numpy and random are seeded before each test, and before each module is imported, from the seed of the session and the id of
the test or the module. What a test draws therefore depends neither on the tests before it nor on the process that it runs in. Unless
`--seed` or LAMINA_TEST_SEED gives one, the seed is always the same, so that a test fails for what has changed and not for a draw.
`--seed=random` draws a new one. It is printed at the start and with each failure.
"""

import hashlib
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

_SEED = pytest.StashKey[int]()
_DEFAULT = 722598769
_GPU = torch.cuda.is_available()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "the seed of random inputs, as a run printed it, or `random` for a new one (or LAMINA_TEST_SEED)"
    parser.addoption("--seed", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SEED] = _chosen(config)


def _chosen(config: pytest.Config) -> int:
    """The seed of this session. A process of pytest-xdist is given that of the process that started it."""
    if hasattr(config, "workerinput"):
        return int(config.workerinput["seed"])
    given = config.option.seed or os.environ.get("LAMINA_TEST_SEED")
    if given == "random":
        return random.SystemRandom().randrange(1 << 32)
    return int(given) if given else _DEFAULT


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.stash[_SEED]


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(f"random inputs: --seed={session.config.stash[_SEED]} repeats them")


def seed_of(node: pytest.Item | pytest.Collector, of: str = "") -> int:
    """The seed for a test, a module, or what `of` names within it: 64 bits of a hash of the session's seed and the id."""
    text = f"{node.config.stash[_SEED]} {node.nodeid} {of}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    # torch.manual_seed remembers the stack for GPUs that are not there, which takes a millisecond.
    if _GPU:
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Parameters of tests may be drawn when a module is imported."""
    if isinstance(collector, pytest.Module):
        _seed_all(seed_of(collector))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _seed_all(seed_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report: pytest.TestReport = yield
    if report.failed:
        report.sections.append(("Random inputs", f"--seed={item.config.stash[_SEED]} repeats them"))
    return report


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the test, for generators of its own."""
    return seed_of(request.node)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator of numpy's that the session's seed repeats."""
    return np.random.default_rng(seed)

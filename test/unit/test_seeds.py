"""Tests that one seed repeats all random inputs, whichever tests run, in however many processes."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

DRAWS = """
import random, numpy as np, pytest, torch

AT_IMPORT = torch.rand(()).item()

@pytest.mark.parametrize("i", range(4))
def test_draws(i, rng):
    print("\\ndrawn", i, AT_IMPORT, torch.rand(()).item(), np.random.rand(), random.random(), rng.random())
    assert i != 2
"""


Session = Callable[..., str]


@pytest.fixture(scope="module")
def session(run_module: list[str], tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Returns what a session of pytest prints that runs DRAWS, or one test of it."""

    def run(*args: str, given: str = "", test: str = "") -> str:
        folder = tmp_path_factory.mktemp("session")
        (folder / "test_draws.py").write_text(DRAWS)
        how = ["-rA", "-p", "seeds", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={folder}"]
        command = [*run_module, "pytest", *how, *args, str(folder / "test_draws.py") + test]
        environment = {"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin", "LAMINA_TEST_SEED": given}
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS).stdout

    return run


def drawn(said: str) -> set[str]:
    return set(re.findall(r"^drawn .*", said, re.MULTILINE))


@pytest.fixture(scope="module")
def first(session: Session) -> str:
    """What a session of a random seed prints."""
    return session("--seed=random")


def test_runs_draw_the_same(session: Session, first: str) -> None:
    assert drawn(session()) == drawn(session()) != drawn(first)


def test_a_seed_repeats_a_session(session: Session, first: str) -> None:
    given = re.findall(r"--seed=(\d+) repeats them", first)
    assert len(given) == 2 and len(set(given)) == 1, "at the start, and with the test that failed"
    assert len(drawn(first)) == 4
    assert drawn(session("-n", "1", f"--seed={given[0]}")) == drawn(first)
    assert drawn(session(given=given[0], test="::test_draws[3]")) == {line for line in drawn(first) if line.startswith("drawn 3")}


def test_no_generator_has_a_seed_of_its_own() -> None:
    """Without an explicit seed numpy's generators take one from the system: use the fixtures `rng` and `seed`."""
    unseeded = re.compile(r"default_rng\(\)|\bRandom\(\)|RandomState\(\)|\.seed\(\)")
    found = [
        str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if path != Path(__file__) and unseeded.search(path.read_text())
    ]
    assert found == []

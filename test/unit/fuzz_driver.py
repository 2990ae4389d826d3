"""Runs opt-driver on mutated inputs and pipelines of the repository's lit tests, each in a separate process.

    python test/unit/fuzz_driver.py --seed 7 --cases 400        # prints what is wrong, with the files that repeat it

Right is: exit status 0, or 1 with errors that are one line each, `file:line:col: error: ...`. Wrong is a traceback, a fault of
Lamina, a driver that ends by a signal, one that does not end, and MLIR or LLVM ending the process inside a pass of Lamina. Where
they do so in the parser or in a pass of their own, the driver's line about it is the right answer.
"""

import argparse
import gc
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mutations import mutated

from lamina.tools.opt_driver import main as opt_driver

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS))  # for prefork
SECONDS = 40  # that a processor works on one case; machines that are busy may take longer
DEADLOCK = 600  # seconds
MEMORY = 16 << 30
_OURS = re.compile(r"Traceback|\bfault\b|the toolchain ended the process .* in (pass lamina-|the way to)|SIGXCPU|SIGKILL")
_LINE = re.compile(r"[^\n]+?:\d+:\d+: (error|warning|note|remark): .+")
_PIPELINE = re.compile(r"--pass-pipeline='([^']*)'")
_LEVEL = re.compile(r"--target=(\S+).*--emit=(\w+)")


@dataclass(frozen=True)
class Case:
    text: str
    arguments: tuple[str, ...]


def corpus() -> list[Case]:
    """Returns every part of every lit test's input, with each pipeline that runs on it."""
    found = []
    for file in sorted(TESTS.glob("*/*.mlir")):
        text = file.read_text()
        runs = re.sub(r"\\\n// *RUN:", "", "\n".join(line for line in text.splitlines() if line.startswith("// RUN")))
        pipelines = list(dict.fromkeys(_PIPELINE.findall(runs))) or [""]
        pieces = text.split("// -----") if "--split-input-file" in runs else [text]
        for piece in pieces:
            body = "\n".join(line for line in piece.splitlines() if not re.match(r"\s*//", line)) + "\n"
            found += [Case(body, (f"--pass-pipeline={p}",) if p else ()) for p in pipelines if len(body) < 20_000]
    return found


def mutants(seed: int) -> Iterator[Case]:
    random = Random(seed)
    cases = corpus()
    while True:
        case = random.choice(cases)
        text, arguments = case.text, case.arguments
        kind = random.random()
        if kind < 0.3 and arguments:
            arguments = tuple(mutated(a.removeprefix("--pass-pipeline="), random) for a in arguments)
            arguments = tuple(f"--pass-pipeline={a}".replace("\0", "") for a in arguments)
        elif kind < 0.4:
            other = random.choice(cases)
            arguments = other.arguments  # a pipeline on what is not meant for it
        else:
            text = mutated(text, random)
        if random.random() < 0.1:
            arguments = (
                *arguments,
                random.choice(("--emit=llvm", "--emit=asm", "--mlir-print-op-generic", "--mlir-print-debuginfo")),
            )
        yield Case(text, arguments)


def run(case: Case, folder: Path) -> str:
    """Returns what is wrong with opt-driver's answer, "" for nothing."""
    source, said = folder / "case.mlir", folder / "said"
    source.write_bytes(case.text.encode("utf-8", "surrogateescape"))
    argv = [str(source), "-o", os.devnull, "--reproducer", str(folder / "repeat.mlir"), *case.arguments]
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        status = 99
        try:
            status = opt_driver(argv)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    status = _wait(child)
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    if status is None:
        return f"it does not end within {DEADLOCK} s"
    if os.WIFSIGNALED(status):
        return f"it ended by {signal.Signals(os.WTERMSIG(status)).name}: {' | '.join(lines[-3:])[:600]}"
    code = os.WEXITSTATUS(status)
    errors = [line for line in lines if ": error: " in line]
    if code not in (0, 1) or (code == 1) != bool(errors):
        return f"exit status {code} with {len(errors)} errors: {' | '.join(lines[-3:])[:600]}"
    wrong = [line for line in lines if not _LINE.fullmatch(line)] if code else []
    wrong += [line for line in lines if _OURS.search(line)]
    return f"said {wrong[0][:600]!r}" if wrong else ""


def _wait(child: int) -> int | None:
    """Returns the status of a process, None for one that had to be killed."""
    end = time.monotonic() + DEADLOCK
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def fuzz(seed: int, cases: int, seconds: float, keep: Path | None = None) -> list[str]:
    """Returns what is wrong, a line each; the inputs that show it are left in `keep`."""
    from prefork import import_all

    import_all()  # what cases need, once, before the forks
    gc.collect()
    gc.freeze()
    found, end, done = [], time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory(prefix="lamina-fuzz-") as folder:
        for number, case in zip(range(cases), mutants(seed), strict=False):
            if time.monotonic() > end:
                break
            done += 1
            if wrong := run(case, Path(folder)):
                found.append(f"case {number} of seed {seed}: {' '.join(case.arguments)}: {wrong}")
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{seed}-{number}.mlir").write_text(case.text, errors="surrogateescape")
    print(f"seed {seed}: {done} cases, {len(found)} wrong", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    wrong = fuzz(given.seed, given.cases, given.seconds, given.keep)
    print("\n".join(wrong))
    sys.exit(bool(wrong))

"""Runs worker processes that answer questions: `python -m lamina.tools.benchmarks.serve MODULE [PACKAGE ...]` is one of them.

It imports the module, and those of the packages that are installed, then answers each line of JSON on standard input by one or more
lines of JSON on standard output, of which the last counts, and an empty one. All other output goes to standard error.
"""

import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

Results = dict[str, Any]
Say = Callable[[Results], None]


def command(module: str, packages: Sequence[str] = ()) -> list[str]:
    """Returns the command line of a worker. `module` is a part of lamina.tools; its `answer` answers questions."""
    return [sys.executable, "-m", "lamina.tools.benchmarks.serve", f"lamina.tools.{module}", *packages]


class Worker:
    """Owns a worker process, which begins with the first question or by `start`. It must not be shared between threads."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, log: Path | None = None, life: int = 1
    ) -> None:
        """Takes what the process needs.

        log   takes its standard error
        life  answers after which another process takes its place
        """
        self._command, self._environment, self._life = command, environment, life
        self._errors = log.open("a+") if log else tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None
        self._answered = 0

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> "subprocess.Popen[str]":
        """Starts the process if there is none."""
        if self._process is None:
            pipe, self._answered = subprocess.PIPE, 0
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdin=pipe, stdout=pipe, stderr=self._errors, text=True
            )
        return self._process

    def ask(self, question: Mapping[str, Any], limit: float) -> Results:
        """Returns the answer to a question.

        Returns {"failed": reason} if there is none. If figures were printed before the process ended or took more than `limit`
        seconds, the reason is in their "notes".
        """
        process, start = self.start(), time.perf_counter()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(limit, process.kill)
        timer.start()
        lines, line = [], ""
        with suppress(BrokenPipeError):
            process.stdin.write(f"{json.dumps(question)}\n")
            process.stdin.flush()
            while (line := process.stdout.readline()).strip():
                lines.append(line)
        timer.cancel()
        results: Results = json.loads(lines[-1]) if lines else {}
        if line:  # the empty one
            self._answered += 1
            if self._answered == self._life:
                self.close()
            return results
        status, self._process = process.wait(), None
        self._errors.seek(0)
        reason = ([f"exit status {status}"] + self._errors.read().strip().splitlines())[-1]
        if time.perf_counter() - start >= limit:
            reason = f"took more than {limit} s"
        return {**results, "notes": {**results.get("notes", {}), "the process": reason}} if lines else {"failed": reason}

    def close(self) -> None:
        """Ends the process, by the end of its standard input, and waits for it."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def kill(self) -> None:
        """Ends the process at once; a question that it is answering fails."""
        if (process := self._process) is not None:
            process.kill()
            process.wait()


def main() -> int:
    """Answers the questions on standard input until it ends."""
    module, *packages = sys.argv[1:]
    answer: Callable[[Results, Say], None] = importlib.import_module(module).answer
    for package in packages:
        if importlib.util.find_spec(package):
            importlib.import_module(package)
    warnings.filterwarnings("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answer(json.loads(line), lambda found: print(json.dumps(found), file=answers, flush=True))
        print(file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

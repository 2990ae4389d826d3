"""Runs a worker process: `python -m lamina.tools.benchmarks.serve MODULE [PACKAGE ...]` lets MODULE.answer answer questions.

It imports the module, and those of the packages that are installed, then answers each line of JSON on standard input by one or more
lines of JSON on standard output, of which the last counts. All other output goes to standard error.
"""

import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Say = Callable[[dict[str, Any]], None]


def start(
    module: str, packages: Sequence[str] = (), *, environment: Mapping[str, str] | None = None, errors: Any = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """Starts a worker. `module` is a part of lamina.tools; `errors` takes its standard error."""
    command = [sys.executable, "-m", "lamina.tools.benchmarks.serve", f"lamina.tools.{module}", *packages]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)


def main() -> int:
    """Answers the questions on standard input until it ends."""
    module, *packages = sys.argv[1:]
    answer: Callable[[dict[str, Any], Say], None] = importlib.import_module(module).answer
    for package in packages:
        if importlib.util.find_spec(package):
            importlib.import_module(package)
    warnings.filterwarnings("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answer(json.loads(line), lambda found: print(json.dumps(found), file=answers, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

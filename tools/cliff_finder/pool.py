"""Runs worker processes that answer questions as lines of JSON, and restarts those that die or take too long."""

import json
import queue
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lamina.tools.benchmarks.serve import start

_PATIENCE = 400.0  # seconds for one graph
_LIFE = 25  # graphs after which a worker is replaced: compilers do not free all memory


class Worker:
    """Runs one worker process. It must not be shared between threads."""

    def __init__(self, lock: Path, seconds: float, log: Path) -> None:
        self._shared = {"lock": str(lock), "seconds": seconds}
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._answered = 0

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer; `{"failed": reason}` if the worker died or took longer than _PATIENCE."""
        if self._process is None or self._answered >= _LIFE:
            self.close()
            with self._log.open("a") as log:
                self._process = start("cliff_finder.worker", errors=log)
            self._answered = 0
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        timer = threading.Timer(_PATIENCE, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({**question, **self._shared}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        self._answered += 1
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = self._process.wait()
        self._process = None
        return {"failed": f"the worker ended with status {status}"}

    def close(self) -> None:
        """Ends the process, by the end of its standard input, and waits for it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Ends the process at once; a question that it is answering fails."""
        if (process := self._process) is not None:
            process.kill()
            process.wait()


def answers(
    questions: Iterable[dict[str, Any]], jobs: int, folder: Path, seconds: float
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Distributes questions to `jobs` workers; yields each question with its answer as answers arrive."""
    workers = [Worker(folder / "lock", seconds, folder / "workers.log") for _ in range(jobs)]
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def ask(question: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        worker = free.get()
        try:
            return question, worker.ask(question)
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(ask, question) for question in questions]):
            yield done.result()
    finally:  # when interrupted, too: what is being measured is not waited for
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()

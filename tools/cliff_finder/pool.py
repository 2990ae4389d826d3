"""Runs the worker processes of the cliff finder."""

import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lamina.tools.benchmarks.serve import Results, Worker, command

PATIENCE = 400.0  # seconds for one graph
_LIFE = 25  # graphs after which a process is replaced: compilers do not free all memory


def worker(folder: Path) -> Worker:
    """Returns a worker that logs to `folder`. One that dies or takes longer than PATIENCE costs one graph."""
    return Worker(command("cliff_finder.worker"), log=folder / "workers.log", life=_LIFE)


def answers(questions: Iterable[dict[str, Any]], jobs: int, folder: Path) -> Iterator[tuple[dict[str, Any], Results]]:
    """Distributes questions to `jobs` workers; yields each question with its answer as answers arrive."""
    workers = [worker(folder) for _ in range(jobs)]
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for one in workers:
        free.put(one)

    def ask(question: dict[str, Any]) -> tuple[dict[str, Any], Results]:
        """Asks the next free worker."""
        one = free.get()
        try:
            return question, one.ask(question, PATIENCE)
        finally:
            free.put(one)

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(ask, question) for question in questions]):
            yield done.result()
    finally:  # when interrupted, too: what is being measured is not waited for
        pool.shutdown(wait=False, cancel_futures=True)
        for one in workers:
            one.kill()

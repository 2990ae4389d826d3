"""Times workloads compiled once for all sizes beside static compilations, and beside TorchInductor's dynamic ones."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.tools.benchmarks.timing import Sampler, Timed, call_by_call, in_turns, interleaved
from lamina.tools.benchmarks.workloads import Workload

SECONDS = 0.6
"""How long a workload's contestants are timed on a GPU."""
ROUNDS = 11
"""How often they are called on one thread of a CPU."""


def timed(runs: Mapping[str, Callable[[], Any]], device: str) -> Timed:
    """Returns the median seconds of a call of each, and why others failed. On a CPU with one thread these are the thread's own
    seconds, which other load disturbs less than the wall clock's."""
    if device == "cuda":
        return call_by_call(runs, SECONDS)
    if torch.get_num_threads() > 1:
        return interleaved(runs)
    return in_turns({name: _own_time(run) for name, run in runs.items()}, ROUNDS)


def _own_time(run: Callable[[], Any]) -> Sampler:
    """Returns what samples the CPU time of a call on this thread. Calls it once before."""
    run()

    def sample() -> Sequence[float]:
        start = time.thread_time()
        run()
        return [time.thread_time() - start]

    return sample


def of_workloads(
    workloads: Mapping[str, Workload], device: str, rivals: bool = True
) -> Iterator[tuple[str, dict[str, float], str]]:
    """Yields each workload's name, median seconds by contestant, and what failed. rivals: whether TorchInductor is timed, too."""
    for name, workload in workloads.items():
        try:
            model, inputs = workload.make(device)
        except ImportError as error:
            yield name, {}, str(error)
            continue
        _mark(model, inputs)
        made = {"lamina": ("lamina", True), "static": ("lamina", False)} | ({"inductor": ("inductor", True)} if rivals else {})
        with torch.no_grad():
            runs = {kind: _calling(torch.compile(apart(model), backend=by, dynamic=d), inputs) for kind, (by, d) in made.items()}
            failed = {}
            for kind, run in list(runs.items()):
                try:
                    run()
                except Exception as error:  # reported with the workload
                    failed[kind] = f"{kind}: {type(error).__name__}: {error}"[:300]
                    del runs[kind]
            times, more = timed(runs, device)
        torch._dynamo.reset()
        yield name, times, "; ".join([*failed.values(), *more.values()])


def _mark(model: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Makes static what a model would fix: tensors with another first size than the first argument, as parameters have, and heads
    and their elements, the second and last dimension of four."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    for x in tensors:
        if not x.dim() or x.shape[0] != tensors[0].shape[0]:
            torch._dynamo.mark_static(x)
        elif x.dim() == 4:
            torch._dynamo.mark_static(x, [1, 3])


def apart(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls the model, with code of its own: Dynamo keeps few compilations of one."""

    def call(*inputs: Any) -> Any:
        return model(*inputs)

    call.__code__ = call.__code__.replace()
    return call


def _calling(run: Callable[..., Any], inputs: Sequence[Any]) -> Callable[[], Any]:
    return lambda: run(*inputs)

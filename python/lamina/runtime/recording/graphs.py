"""Records a program's steps as a CUDA graph. Capture goes through torch, whose allocator and libraries have to know of it."""

import logging
import os
from dataclasses import dataclass
from typing import Any

import torch

from lamina.core.options import Options

_log = logging.getLogger("lamina")


@dataclass(frozen=True)
class Recorder:
    """The callbacks of native/recording.cpp. Between `begin` and `end` the calling thread captures a stream; programs of kernels
    alone need no capture.

    measured  record only programs that are measured to be launch-bound and faster as a graph
    limit     graphs that the process may hold; the least recently used go first
    """

    measured: bool = True
    limit: int = 64

    def begin(self, gpu: int) -> Any:
        """Starts capture on a new stream, which becomes torch's current one. Returns the state that `end` takes."""
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        stream = torch.cuda.Stream(gpu)
        stream.wait_stream(torch.cuda.current_stream(gpu))
        _forget_workspaces()
        scope = torch.cuda.stream(stream)
        scope.__enter__()
        try:
            graph.capture_begin(capture_error_mode="thread_local")
        except BaseException:
            scope.__exit__(None, None, None)
            raise
        return graph, scope

    def end(self, started: Any) -> int:
        """Ends capture. Returns the address of the graph (cudaGraph_t), which lives as long as `started`."""
        graph, scope = started
        try:
            graph.capture_end()
        finally:
            scope.__exit__(None, None, None)
            _forget_workspaces()
        return int(graph.raw_cuda_graph())

    def give_up(self, program: str, why: str, started: Any | None) -> None:
        """Logs why a recording failed, and ends the capture where `end` has not been called (`started` is not None)."""
        level = logging.DEBUG if self.measured else logging.WARNING
        _log.log(level, "lamina: %s is not recorded as a CUDA graph: %s", program, why)
        if started is not None:
            try:
                self.end(started)
            except RuntimeError as error:
                _log.debug("lamina: %s", error)


def _forget_workspaces() -> None:
    """Drops cuBLAS's workspaces, which it keeps for each stream: one made before a recording would be shared with later users of
    that stream, one made while recording must stay the graph's own."""
    forget = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if forget is not None:
        forget()


def recorder_for(options: Options) -> Recorder | None:
    """Returns the recorder for these options. None if they (`graph_limit=0` too) or CUDA_LAUNCH_BLOCKING=1 turn graphs off."""
    if options.cuda_graphs is False or not options.graph_limit or os.environ.get("CUDA_LAUNCH_BLOCKING", "") == "1":
        return None
    return Recorder(options.cuda_graphs == "auto", options.graph_limit)

"""Where in the user's source an FX node comes from."""

import os
import re
from functools import cache

import torch
from torch import fx

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_NOT_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)


@cache
def _innermost(trace: str) -> tuple[str, int] | None:
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    users = [frame for frame in frames if not frame[0].startswith(_NOT_USERS)]
    known = users or frames
    return known[-1] if known else None


def source_of(node: fx.Node) -> tuple[str, int] | None:
    """(file, line) of the innermost frame of the node's stack trace that is neither torch's nor ours, if it has a trace."""
    trace = node.meta.get("stack_trace")
    return _innermost(trace) if trace else None


def where(node: fx.Node) -> str:
    """ "file:line" for messages, or ""."""
    source = source_of(node)
    return f"{source[0]}:{source[1]}" if source else ""

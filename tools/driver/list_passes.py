"""Formats the output of `--list-passes`: Lamina's passes, then upstream's."""

import re
import subprocess
from pathlib import Path

from torch_mlir import _mlir_libs

from lamina.passes.infra.pipeline_options import describe
from lamina.passes.infra.registry import PASSES, load
from lamina.passes.infra.upstream import upstream_passes

_ENTRY = re.compile(r"^ {6}--([a-z][\w-]*) +- +(\S.*)$", re.MULTILINE)


def listing() -> str:
    """Returns the names, summaries and options of all passes as text."""
    lines = ["Lamina's passes, on builtin.module:"]
    for name in PASSES:
        summary, options = describe(load(name))
        lines.append(f"  {name:24} {summary}")
        lines += [f"      {option:40} {text}".rstrip() for option, text in options]
    lines.append("Upstream's passes, with their options:")
    helps = upstream_help()
    for name, own in upstream_passes().items():
        lines.append(f"  {name:40} {helps.get(name, '')}".rstrip())
        if own:
            lines.append(f"      {' '.join(own)}")
    return "\n".join(lines) + "\n"


def upstream_help() -> dict[str, str]:
    """Returns one-line summaries by pass, parsed from the help of the wheel's own torch-mlir-opt.

    That tool knows about a third of the passes; the Python bindings give no help texts. The result is empty if the tool is missing.
    """
    tool = Path(_mlir_libs.__file__).with_name("torch-mlir-opt")
    if not tool.exists():
        return {}
    text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False).stdout
    return {m[1]: m[2] for m in _ENTRY.finditer(text)}

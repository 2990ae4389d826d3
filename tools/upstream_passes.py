"""Generates passes/infra/upstream.txt: every pass of the installed torch-mlir with its options.

    python -m lamina.tools.upstream_passes > passes/infra/upstream.txt

This takes minutes; run it after an upgrade. The Python bindings cannot list passes, so the script tries every word in the shared
library: each tail of a C string that looks like a name (linkers merge strings that share a tail) is offered to the pass manager's
parser, which knows.
"""

import os
import re
import sys
from pathlib import Path

from torch_mlir import _mlir_libs, ir
from torch_mlir._mlir_libs import _torchMlir
from torch_mlir.passmanager import PassManager

_WORD = re.compile(rb"([a-z][a-z0-9-]{1,70})\x00")
_INTERNAL = re.compile(r"^test-|-test-")


def words() -> list[str]:
    """Returns the words in torch-mlir's library that may name a pass or an option, with all their tails, sorted."""
    library = Path(_mlir_libs.__file__).with_name("libTorchMLIRAggregateCAPI.so")
    found = {m[1].decode() for m in _WORD.finditer(library.read_bytes())}
    return sorted({w[i:] for w in found for i in range(len(w) - 1) if w[i].isalpha()})


def refusal(text: str) -> str:
    """Returns the parser's error for a pass, or "" if it accepts the pass."""
    try:
        PassManager.parse(f"any({text})")
        return ""
    except ValueError as error:
        return str(error)


def options(name: str, candidates: list[str]) -> list[str]:
    """Returns those of `candidates` that are options of a pass. Some pipelines have none and refuse every word in the same way."""
    if "no such option" not in refusal(f"{name}{{no-pass-has-this}}"):
        return []
    return [w for w in candidates if "no such option" not in refusal(f"{name}{{{w}}}")]


def main() -> None:
    """Prints the passes, without those for tests, and their options to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # LLVM itself reports wrong option values on standard error
    candidates = words()
    with ir.Context() as context:
        _torchMlir.register_dialect(context)
        passes = [w for w in candidates if "does not refer to a registered pass" not in refusal(w)]
        print("# Passes of torch-mlir's library and their options, by tools/upstream_passes.py.")
        for name in passes:
            if not _INTERNAL.search(name):
                print(f"{name}: {' '.join(options(name, candidates))}".rstrip())
                sys.stdout.flush()


if __name__ == "__main__":
    main()

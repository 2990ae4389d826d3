"""Pass instrumentation: verification, IR dumps, timing and reproducers of a pipeline run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch_mlir import ir

from lamina.core.errors import CompileError


@dataclass(frozen=True)
class PassTiming:
    """Seconds that one pass took, including verification. `path` is the pass with its options and nest: "func.func(cse)"."""

    path: str
    seconds: float

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.path.partition("{")[0].rpartition("(")[2].rstrip(")")


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)


@dataclass(frozen=True)
class Instrumentation:
    """Options of a pass pipeline's run: what to verify, print and time.

    verify_each   verify the module after every pass
    before        names of passes before which the module is printed; "*" means every pass
    after         the same, after the pass
    tree_dir      a folder that gets the printed modules as files, `03_canonicalize.mlir`, instead of `write`
    debug_info    print locations
    elide         constants with more elements are printed as `...` in dumps; None prints all
    reproducer    the file that gets a failing pass's input; None: a new one in the temporary folder; False: none
    on_pass       called with the index and name of every pass before it runs
    write         receives the printed modules
    first         the number of the first pass in the names of files
    """

    verify_each: bool = True
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    tree_dir: Path | None = None
    debug_info: bool = False
    elide: int | None = None
    reproducer: Path | bool | None = None
    on_pass: Callable[[int, str], None] | None = None
    write: Callable[[str], None] = _to_stderr
    first: int = 0

    def dump(self, module: ir.Module, when: str, index: int, name: str, call: str) -> None:
        """Prints the module if that was asked for before or after (`when`) the pass `name`. Raises CompileError."""
        wanted = self.before if when == "Before" else self.after
        if not wanted & {name, "*"}:
            return
        asm = module.operation.get_asm(enable_debug_info=self.debug_info, large_elements_limit=self.elide)
        if self.tree_dir is None:
            self.write(f"// -----// IR Dump {when} {call} //----- //\n{asm.rstrip()}\n\n")
            return
        file = self.tree_dir / f"{self.first + index:02d}_{name}{'.before' if when == 'Before' else ''}.mlir"
        try:
            self.tree_dir.mkdir(parents=True, exist_ok=True)
            file.write_text(f"// {when.lower()} {call}\n{asm}")
        except OSError as error:
            raise CompileError(f"cannot write IR: {error.strerror}", where=f"{file}:1:1") from error


def report(timings: tuple[PassTiming, ...]) -> str:
    """Formats the timings as a table, in the order the passes ran."""
    total = sum(t.seconds for t in timings)
    lines = ["===- Pass timing -===", "   seconds   share  pass"]
    lines += [f"{t.seconds:10.4f} {100 * t.seconds / total if total else 0:6.1f}%  {t.path}" for t in timings]
    return "\n".join([*lines, f"{total:10.4f}  100.0%  total"]) + "\n"

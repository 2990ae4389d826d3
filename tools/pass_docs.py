"""Generates docs/passes.md from the docstrings of the passes.

    python -m lamina.tools.pass_docs docs/passes.md    prints it, without a file's name

test/unit/test_docs.py fails if the page is out of date.
"""

import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from itertools import chain, pairwise, product
from pathlib import Path

from lamina.core.errors import CompileError
from lamina.passes.infra.base import Pass
from lamina.passes.infra.pipeline_options import describe
from lamina.passes.infra.pipeline_text import parse
from lamina.passes.infra.registry import PASSES, load
from lamina.passes.lower.tile_ops import Elsewhere, Refused, Row
from lamina.targets.levels import LEVELS, pipeline
from lamina.targets.registry import TILE_OPS, tile_ops

_HEAD = """# Passes

Lamina's own passes in the order they run, made from their docstrings by `python -m lamina.tools.pass_docs`. Each is one file, a
frozen dataclass whose fields are its options, and runs by itself on any `.mlir`:

```
opt-driver x.mlir --pass-pipeline='lamina-simplify{fast-math=exp-log},func.func(canonicalize,cse),lamina-fuse'
```

Upstream's passes mix with them by name. `opt-driver --list-passes` shows all of them with their options.
"""
_MOST = "nvvm:sm_90a"  # the target whose pipelines contain all passes of the others'
_TARGETS = """## In the targets

Between tile and llvm, before upstream's own lowering (`targets/cpu/backend.py`, `targets/nvvm/backend.py`).
"""
_TILE_OPS = """## Ops of tile programs

What lowers each op on each target, from the tables that `targets/registry.py` names. The others are upstream's.
"""
_CODE = re.compile(r" {4}| ?->")


def page() -> str:
    """Returns the page: the passes of each pipeline between levels, then those that targets run."""
    parts, left = [_HEAD], dict(PASSES)
    for start, end in pairwise(LEVELS):
        names = [call.name for _, call in parse(pipeline(start, end, target=_MOST)).calls() if call.name in PASSES]
        parts += [f"## From {start} to {end}\n"] if names else []
        parts += [section(load(name)) for name in names]
        for name in names:
            left.pop(name, None)
    return "\n".join([*parts, _TARGETS, *(section(load(name)) for name in left), _TILE_OPS, *rows()])


def rows() -> list[str]:
    """Returns the lines of the table of tile ops by target, and why targets refuse some. Raises CompileError for an op that a
    target has no row for."""
    tables = tile_ops()
    for name, op in product(tables, dict.fromkeys(chain.from_iterable(tables.values()))):
        if op not in tables[name]:
            raise CompileError(f"the table of {name} has no row for {op}", remedy=f"add one in {TILE_OPS[name].replace(':', ', ')}")
    reasons: dict[Refused, int] = {}
    lines = ["| op | " + " | ".join(tables) + " |", "| --- |" + " --- |" * len(tables)]
    for op in next(iter(tables.values())):
        lines.append(f"| `{op}` | " + " | ".join(_cell(table[op], reasons) for table in tables.values()) + " |")
    return [*lines, "", *(f"{number}. {refused.why}; {refused.remedy}" for refused, number in reasons.items()), ""]


def _cell(row: Row, reasons: dict[Refused, int]) -> str:
    """Returns the pass that lowers an op, or the number of the reason why none does."""
    if isinstance(row, Refused):
        return f"refused ({reasons.setdefault(row, len(reasons) + 1)})"
    return row.lowered_by if isinstance(row, Elsewhere) else f"`{row.__module__.rpartition('.')[2]}.{row.__name__}`"


def section(cls: type[Pass]) -> str:
    """Formats name, file, options and docstring of one pass as Markdown."""
    summary, options = describe(cls)
    _, *rest = inspect.cleandoc(cls.__doc__ or "").split("\n")
    names = "|".join(f.name for f in fields(cls)) or "$^"
    texts: dict[str, str] = {}  # options by name, from lines such as "rows, elements  when to split"
    body: list[str] = []
    last: list[str] = []  # the options that the line before is about
    for line in rest:
        if last and re.match(r" {4,}\S", line):
            texts.update((name, f"{texts[name]} {line.strip()}") for name in last)
            continue
        last = []
        if found := re.match(rf"((?:{names})(?:, (?:{names}))*) {{2,}}(\S.*)", line):
            last = [name.replace("_", "-") for name in found[1].split(", ")]
            texts.update(dict.fromkeys(last, found[2]))
        else:
            body.append(line)
    listed = [f"- `{option}` {texts.get(option.partition('=')[0], '')}".rstrip() for option, _ in options]
    file = PASSES[cls.name].partition(":")[0].removeprefix("lamina.").replace(".", "/")
    head = f"### {cls.name}\n\n{escaped(summary)} (`{file}.py`)\n"
    text = fenced(body)
    return "\n".join([head, *([*listed, ""] if listed else []), *([text, ""] if text else [])])


def fenced(lines: list[str]) -> str:
    """Converts docstring lines to Markdown: indented stretches, and the arrows between them, become fenced code."""
    out: list[str] = []
    inside = False
    for line, following in pairwise([*lines, ""]):
        code = bool(_CODE.match(line)) if line else inside and bool(_CODE.match(following))
        if code != inside:
            out += ["```mlir"] if code else ["```"]
            inside = code
        out.append((line[4:] if line.startswith("    ") else line.lstrip()) if code else escaped(line))
    text = "\n".join([*out, *(["```"] if inside else [])]).strip()
    return text.replace("\n\n```mlir\n", "\n```mlir\n")


def escaped(line: str) -> str:
    """Escapes asterisks outside of backticks, so that Markdown reads no emphasis in x*x*x."""
    parts = line.split("`")
    return "`".join(part.replace("*", "\\*") if i % 2 == 0 else part for i, part in enumerate(parts))


def main(arguments: Sequence[str]) -> None:
    """Writes the page to a file, once all of it is made, or prints it."""
    try:
        text = page()
    except CompileError as error:
        sys.exit(str(error))
    if arguments:
        Path(arguments[0]).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])

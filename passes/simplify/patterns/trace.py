"""Traces pairs of Python functions to linalg, for the library's files of rules.

python -m lamina.passes.simplify.patterns.trace           writes the .mlir files
python -m lamina.passes.simplify.patterns.trace --check   exit status 1 when one is out of date
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from ..matching.pattern import COLUMNS, ROWS
from ..matching.rule import FAMILIES

if TYPE_CHECKING:
    import torch

    from ..matching.rule import Rule

# The third pipeline leaves fewer ops, which are parsed each time the pass runs.
_PIPELINES = (
    "torchdynamo-export-to-torch-backend-pipeline",
    "torch-backend-to-linalg-on-tensors-backend-pipeline",
    "func.func(linalg-fuse-elementwise-ops),canonicalize,cse",
)


def scalars(function: Callable[..., Any]) -> tuple[int, ...]:
    """Returns the positions of the parameters annotated `float`, which may match numbers."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(i for i, p in enumerate(parameters) if p.annotation in (float, "float"))


def to_linalg(function: Callable[..., Any], inputs: "Sequence[torch.Tensor]", *, fused: bool = True) -> str:
    """Traces a function of tensors to a func.func @main, as text, on tensors of the same shapes and types.

    fused  fuse elementwise ops into one generic where they meet; otherwise each op stays a generic, as the frontend leaves them
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_importer import FxImporter

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fakes = [mode.from_tensor(x) for x in inputs]
        graph = make_fx(function)(*fakes).graph
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer.import_stateless_graph(graph, func_name="main")
    for pipeline in _PIPELINES if fused else _PIPELINES[:2]:
        PassManager.parse(f"builtin.module({pipeline})", context).run(importer.module.operation)
    main = importer.module.body.operations[0]
    return str(main.operation.get_asm(enable_debug_info=False, use_local_scope=True))


def _at_sample_sizes(function: Callable[..., Any]) -> str:
    """Traces a function on f32 tensors of ROWS x COLUMNS (no memory is behind them); floats are 0-d."""
    import torch

    numbers = scalars(function)
    count = len(inspect.signature(function).parameters)
    return to_linalg(function, [torch.empty(() if i in numbers else (ROWS, COLUMNS), device="meta") for i in range(count)])


def traced(rules: "tuple[Rule, ...]") -> str:
    """Returns a module with two functions for every rule: @pattern_N and @replacement_N."""
    parts = []
    for n, rule in enumerate(rules):
        for role, function in (("pattern", rule.pattern), ("replacement", rule.replacement)):
            if function is None:
                continue
            attributes = f'rule = "{rule.name}", scalars = array<i64{_list(scalars(function))}>'
            text = _at_sample_sizes(function).rstrip()
            head, body = text.split(" {\n", 1)
            head = head.replace("@main", f"@{role}_{n}")
            parts.append(f"{head} attributes {{{attributes}}} {{\n{body}\n")
    return "\n".join(parts)


def _list(numbers: tuple[int, ...]) -> str:
    return ": " + ", ".join(map(str, numbers)) if numbers else ""


def main() -> int:
    """Writes the stale .mlir files and prints their names. With --check writes nothing; returns 1 when one is stale."""
    stale = []
    for family in FAMILIES:
        path = Path(__file__).with_name(f"{family}.mlir")
        text = f"// Made from {family}.py by `python -m lamina.passes.simplify.patterns.trace`.\n\n"
        text += traced(import_module(f"{__package__}.{family}").RULES)
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    sys.stdout.write("".join(f"{name}\n" for name in stale))
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

"""Hashes the code that writes kernels: a tuning answer holds only for the kernels that were measured.

The modules that write kernels are found by their imports, starting from the passes between the graph level and tile programs and
from the GPU target. Their syntax trees are hashed without docstrings, so that every edit of code counts and no edit of prose does.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_ENTRIES = (  # in the package: code that applies a choice, that builds programs from it, and that compiles these
    "kernels/**/*.py",  # Triton reads them as text
    "passes/families/select.py",
    "passes/families/vendor_calls.py",
    "passes/plan/plan.py",
    "passes/tile/tile.py",
    "passes/horizontal/horizontal.py",
    "targets/kernel_calls/user.py",
    "targets/nvvm/backend.py",
    "targets/nvvm/steps.py",
    "passes/lower/distribute.py",  # the target's own passes, by name
    "passes/lower/expand_math.py",
    "passes/lower/gpu_to_nvvm.py",
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def revision(package: Path = Path(__file__).parents[1]) -> str:
    """Returns a digest of the code of `modules`."""
    hashed = hashlib.sha256()
    for name, tree in sorted(modules(package).items()):
        parts: list[str] = []
        _write(tree, parts)
        hashed.update(f"{name}\0{' '.join(parts)}\0".encode())
    return hashed.hexdigest()[:16]


def digest(*parts: str) -> str:
    """Returns a digest of texts that a question's key stands for."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def modules(package: Path) -> dict[str, ast.Module]:
    """Returns the syntax trees of the modules that write kernels, by path in the package."""
    found: dict[str, ast.Module] = {}
    waiting = [str(file.relative_to(package)) for pattern in _ENTRIES for file in package.glob(pattern)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = ast.parse((package / name).read_bytes())
            waiting += _imported(found[name], name, package)
    return found


def _imported(tree: ast.Module, name: str, package: Path) -> Iterator[str]:
    """The files of the package that a module imports, in functions too."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["lamina", *Path(name).parts[:-1]]
            above = above[: len(above) + 1 - node.level] if node.level else []
            whole = ".".join([*above, *([node.module] if node.module else [])])
            names = [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
        else:
            continue
        for full in names:
            first, *rest = full.split(".")
            if first == "lamina" and rest:
                files = (Path(*rest).with_suffix(".py"), Path(*rest, "__init__.py"))
                yield from (str(file) for file in files if (package / file).is_file())


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, at any depth."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(block, name, None)
        for statement in inner if isinstance(inner, list) else ():
            yield statement
            yield from _statements(statement)


def _write(value: Any, parts: list[str]) -> None:
    """Appends a syntax tree as text, without locations, docstrings and absent fields."""
    if isinstance(value, ast.AST):
        parts.append(type(value).__name__)
        for name in value._fields:
            inner = getattr(value, name, None)
            if name == "body" and isinstance(value, _DOCUMENTED) and ast.get_docstring(value, clean=False) is not None:
                inner = value.body[1:]
            if inner is not None and inner != []:
                parts.append(name)
                _write(inner, parts)
        parts.append(")")
    elif isinstance(value, list):
        for item in value:
            _write(item, parts)
        parts.append("]")
    else:
        parts.append(repr(value))

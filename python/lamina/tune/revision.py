"""Hashes the code that writes kernels: a tuning answer holds only for the kernels that were measured.

The modules that write kernels are found by their imports, starting from the passes between the graph level and tile programs and
from the GPU target. They are hashed without comments and docstrings, so that every edit of code counts and no edit of prose does.
This takes a second, so the cache of compiled programs keeps the digest for sources of these sizes and times.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lamina.runtime.cache import Cache, Entry, cache_key

_PACKAGE = Path(__file__).parents[1]
_ENTRIES = (  # in the package: code that applies a choice, that builds programs from it, and that compiles these
    "kernels/**/*.py",  # Triton reads them as text
    "passes/families/select.py",
    "passes/families/vendor_calls.py",
    "passes/plan/plan.py",
    "passes/tile/ranges/size_ranges.py",
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
def revision() -> str:
    """Returns the digest of this package's code."""
    stored, key = Cache(), cache_key(of="the revision of tuning's answers")
    entry = stored.get(key)
    if entry is None:
        entry = Entry("", b"", {"revision": code_digest(_PACKAGE)})
        stored.put(key, entry)
    return str(entry.meta["revision"])


def code_digest(package: Path) -> str:
    """Returns a digest of the code of `modules`."""
    return digest(*(part for module in sorted(modules(package).items()) for part in module))


def digest(*parts: str) -> str:
    """Returns a digest of texts that a question's key stands for."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def modules(package: Path) -> dict[str, str]:
    """Returns the modules that write kernels, without comments and docstrings, by path in the package."""
    sources: dict[str, str] = {}
    waiting = [str(file.relative_to(package)) for pattern in _ENTRIES for file in package.glob(pattern)]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        imports, sources[name] = read((package / name).read_bytes())
        for node in imports:
            waiting += _imported(node, name, package)
    return sources


def read(source: bytes) -> tuple[list[ast.Import | ast.ImportFrom], str]:
    """Returns a module's imports, and its code without comments and docstrings."""
    tree, imports = ast.parse(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return imports, ast.unparse(tree)


def _imported(node: ast.Import | ast.ImportFrom, name: str, package: Path) -> Iterator[str]:
    """Yields the files of the package that a statement of the module `name` imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        above = ["lamina", *Path(name).parts[:-1]]
        above = above[: len(above) + 1 - node.level] if node.level else []
        whole = ".".join([*above, *([node.module] if node.module else [])])
        names = [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
    for full in names:
        first, *rest = full.split(".")
        if first == "lamina" and rest:
            files = (Path(*rest).with_suffix(".py"), Path(*rest, "__init__.py"))
            yield from (str(file) for file in files if (package / file).is_file())

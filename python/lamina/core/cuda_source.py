"""CUDA C++ sources of user kernels: finds the `__global__` function and reads its parameters by text matching, without a
compiler."""

import hashlib
import re
from dataclasses import dataclass

from .dtypes import ELEMENT_TYPES

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ATTRIBUTES = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__attribute__")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__|struct)\b|\s+")
_UNNAMED = {"int", "char", "short", "long", "unsigned", "signed", "float", "double", "bool", "void"}  # last words of types
ELEMENTS = {name.replace(" ", ""): type_.name for type_ in ELEMENT_TYPES for name in type_.cuda}
"""Maps a C++ type without blanks to its dtype."""
_ITEMS = {"char": 1, "short": 2, "int": 4, "float": 4, "longlong": 8, "double": 8}
_VECTOR = re.compile(rf"u?({'|'.join(_ITEMS)})([24])$")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    type  its type as written, "*" for an array
    name  its name, "" if there is none
    """

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """Whether the parameter is a pointer or an array."""
        return "*" in self.type

    def element(self, macros: dict[str, str]) -> str:
        """Returns the type, or the pointee's type, without qualifiers and blanks, with `macros` (name to text) expanded."""
        bare = _QUALIFIERS.sub("", self.type.replace("*", ""))
        return _QUALIFIERS.sub("", macros.get(bare, bare))

    def alignment(self, macros: dict[str, str]) -> int:
        """Returns the alignment in bytes that a vector type such as float4 asks of the pointee; 1 for any other type."""
        found = _VECTOR.match(self.element(macros))
        return min(_ITEMS[found[1]] * int(found[2]), 16) if found else 1


@dataclass(frozen=True)
class CudaSource:
    """A CUDA C++ source file and the kernel to take from it.

    text      the source
    function  the kernel, as an expression of C++: "scaled_add", or "scale<float, BLOCK>" for one instance of a template
    file, line  where the text begins, for messages
    flags     options for NVRTC
    """

    text: str
    function: str
    file: str
    line: int
    flags: tuple[str, ...] = ()

    @property
    def cache_key(self) -> str:
        """A digest of all that the code depends on, except the files it includes."""
        return hashlib.sha256(repr((self.text, self.function, self.flags)).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The function's name without namespaces and template arguments."""
        return self.function.partition("<")[0].strip().rpartition("::")[2]

    @property
    def place(self) -> str:
        """The file and line of the kernel's definition, such as "file.cu:12"."""
        text = _without_comments(self.text)
        match = re.search(rf"__global__[^;{{}}]*?\b{re.escape(self.name)}\s*\(", text)
        before = text[: match.start()] if match else ""
        return f"{self.file}:{self.line + before.count(chr(10))}"

    @property
    def parameters(self) -> tuple[Parameter, ...] | None:
        """The kernel's parameters. None if the text does not tell: macros write them, or several functions have its name."""
        found = {text for name, text in global_functions(self.text) if name == self.name}
        written = tuple(map(_parameter, _parts(found.pop()))) if len(found) == 1 else None
        macros = written is None or any(not p.name and p.type.isidentifier() and p.type not in ELEMENTS for p in written)
        return None if macros else written


def global_functions(text: str) -> list[tuple[str, str]]:
    """Returns name and parameter list of each `__global__` function, in order."""
    text = _without_comments(text)
    functions = []
    for start in re.finditer(r"\b__global__\b", text):
        for call in re.compile(r"(\w+)\s*\(").finditer(text, start.end()):
            inside = _until_closed(text, call.end())
            if call[1] not in _ATTRIBUTES:
                functions.append((call[1], inside))
                break
    return functions


def _without_comments(text: str) -> str:
    """Replaces comments by blanks and keeps the number of lines."""
    return _COMMENT.sub(lambda comment: " " + "\n" * comment[0].count("\n"), text)


def _until_closed(text: str, start: int) -> str:
    depth = 1
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return text[start:i]
    return text[start:]


def _parts(parameters: str) -> list[str]:
    """Splits a parameter list at the commas outside brackets."""
    parts, depth = [""], 0
    for c in parameters:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip() not in ("", "void")]


def _parameter(text: str) -> Parameter:
    found = re.match(r"(.*?)\b(\w+)\s*(\[[^\]]*\])?$", text, re.DOTALL)
    if found is None or not found[1].strip() or found[2] in _UNNAMED:
        return Parameter(" ".join(text.split()), "")
    return Parameter(" ".join(found[1].split()) + ("*" if found[3] else ""), found[2])

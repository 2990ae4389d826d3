"""Converts LLVM IR text printed by MLIR's LLVM (24) to the syntax of llvmlite's (22), and parses it there.

LLVM 23 changed how floating-point literals print: shortest decimals that need not be exact (`float 0.1`), `+inf`, `-qnan`,
`nan(0x1)` and `f0x3F800000` for bits. LLVM 22 reads exact decimals and hexadecimal bits only: `0x` + 16 digits of the value as a
double for float and double, `0xH` + 4 for half, `0xR` + 4 for bfloat. Nothing else that the CPU path prints differs.
"""

import re
import struct
from functools import cache

import llvmlite.binding as llvm

from lamina.core.errors import CompileError

_WIDTHS = {"half": (16, 10), "bfloat": (16, 7), "float": (32, 23), "double": (64, 52)}  # bits, mantissa bits
_LITERAL = re.compile(
    r"(?<=[ (\[,])(?:f0x[0-9A-Fa-f]+|[-+](?:inf|qnan|s?nan\(0x[0-9A-Fa-f]+\))(?!\w)|[-+]?\d+\.\d*(?:[eE][-+]?\d+)?)"
)


def convert(text: str) -> str:
    """Returns `text` with every floating-point literal spelled as LLVM 22 reads it."""
    return "\n".join(_line(line) if _LITERAL.search(line) else line for line in text.split("\n"))


def _line(line: str) -> str:
    def respell(literal: re.Match[str]) -> str:
        """Respells a literal outside of strings."""
        type_ = _type_before(line, literal.start())
        quoted = line.count('"', 0, literal.start()) % 2
        return spelling(type_, literal[0]) if type_ and not quoted else literal[0]

    return _LITERAL.sub(respell, line)


def _type_before(line: str, end: int) -> str:
    """Returns a literal's type, the last one named before it: `fmul float %x, 2.0`, `phi float [ 0.0, %1 ]`, `splat (float
    1.0)`."""
    best, found = -1, ""
    for name in _WIDTHS:  # bfloat comes before float, which ends at the same place
        at = line.rfind(name, 0, end)
        if at >= 0 and at + len(name) > best and line[at + len(name)] in " >":
            best, found = at + len(name), name
    return found


@cache
def spelling(text: str, literal: str) -> str:
    """Respells one literal of type `text`, e.g. ("float", "0.1") -> "0x3FB99999A0000000"."""
    bits = _bits(text, literal)
    if text == "half":
        return f"0xH{bits:04X}"
    if text == "bfloat":
        return f"0xR{bits:04X}"
    return f"0x{bits if text == 'double' else _widened(bits):016X}"


def _bits(text: str, literal: str) -> int:
    width, mantissa = _WIDTHS[text]
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    sign = (literal[0] == "-") << (width - 1)
    exponent = ((1 << (width - 1 - mantissa)) - 1) << mantissa
    quiet = 1 << (mantissa - 1)
    name = literal.lstrip("+-")
    if name == "inf":
        return sign | exponent
    if name == "qnan":
        return sign | exponent | quiet
    if "nan" in name:
        return sign | exponent | (0 if name[0] == "s" else quiet) | int(name[name.index("x") + 1 : -1], 16)
    value = float(literal)
    if text == "double":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    if text == "half":
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    single = int(struct.unpack("<I", struct.pack("<f", value))[0])
    return single if text == "float" else (single + 0x7FFF + (single >> 16 & 1)) >> 16


def _widened(bits: int) -> int:
    """Returns the bits of the double that equals a float. A NaN keeps its payload, which a conversion does not promise."""
    if bits >> 23 & 0xFF == 0xFF:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def parse(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parses and verifies LLVM IR text for a machine. Raises CompileError if LLVM 22 rejects it."""
    try:
        parsed = llvm.parse_assembly(text)
        parsed.verify()
    except RuntimeError as error:
        raise CompileError(
            f"LLVM 22 does not read this LLVM IR: {error}", remedy="a literal may need a rule in llvm_text"
        ) from error
    parsed.triple = machine.triple
    parsed.data_layout = str(machine.target_data)
    return parsed


def attach(text: str, attributes: dict[str, str]) -> str:
    """Returns `text` with string attributes on every function definition."""
    words = " ".join(f'"{k}"="{v}"' for k, v in attributes.items())
    return re.sub(r"^(define [^\n]*?)( \{)$", rf"\1 {words}\2", text, flags=re.M) if words else text

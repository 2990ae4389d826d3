"""Rewrites a kernel's PTX so that its parameters are pointers only. Numbers become constants:

ld.param.u32 %r2, [scaled_add_param_3];   ->   mov.u32 %r2, 1000;
ld.param.u64 %rd1, [scaled_add_param_0];  ->   ld.param.u64 %rd1, [custom_scaled_add_param_2];
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry ([\w$]+)\s*\(([^)]*)\)([^{]*)", re.MULTILINE)
_REGISTERS = re.compile(r"\.reg\s+\.\w(\d+)\s+(%[a-z]+)<")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.[a-z]+\s+)?(?:\.align\s+\d+\s+)?)?[\w$]+(?:\[(\d+)\])?"
)


@dataclass(frozen=True)
class PtxParameter:
    """A parameter as PTX declares it.

    type   "u64", "f32", ..., or "b8" for an array (a struct, or an f16 or bf16 number)
    bytes  its whole size
    """

    type: str
    bytes: int


def parameters(ptx: str, entry: str) -> list[PtxParameter]:
    """Returns the parameters of a kernel. Raises KeyError if no kernel has that name."""
    declared = _PARAMETER.findall(_head(ptx, entry)[2])
    return [PtxParameter(type_, int(count or 1) * int(type_[1:]) // 8) for type_, count in declared]


def most_threads(ptx: str, entry: str) -> int:
    """Returns the most threads of a block that the kernel's launch bounds allow; 0 without launch bounds."""
    match = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", _head(ptx, entry)[3])
    return int(match[1]) * int(match[2] or 1) * int(match[3] or 1) if match else 0


def _head(ptx: str, entry: str) -> re.Match[str]:
    return {head[1]: head for head in _ENTRY.finditer(ptx)}[entry]


def bind(
    ptx: str, entry: str, symbol: str, bindings: Sequence[int | bytes], count: int, threads: Sequence[int]
) -> tuple[str, Sequence[int]]:
    """Returns the PTX with the kernel `entry` alone, renamed to `symbol`, with `count` pointers as parameters. Also returns the
    indices of parameters that could not become constants, because code takes their addresses.

    bindings  for each parameter the index of a pointer, or the bytes of a constant
    threads   the launch's threads of a block along x, y, z: the assembler limits registers so that they fit
    """
    text = _without_other_kernels(ptx, entry)
    constants = {i: value for i, value in enumerate(bindings) if isinstance(value, bytes)}
    text = _without_loads(text, entry, constants)
    pointers = {i: number for i, number in enumerate(bindings) if isinstance(number, int)}
    listed = ",\n".join(f"\t.param .u64 {symbol}_param_{i}" for i in range(count))
    bounds = "" if most_threads(ptx, entry) else f"\n.reqntid {', '.join(map(str, threads))}"
    text = _ENTRY.sub(lambda head: f".visible .entry {entry}(\n{listed}\n){bounds}{head[3]}", text)
    left = sorted({int(i) for i in re.findall(rf"(?<![\w$]){re.escape(entry)}_param_(\d+)\b", text)} & set(constants))

    def renamed(match: re.Match[str]) -> str:
        """Renames a parameter to its place in the launch."""
        return f"{symbol}_param_{pointers[int(match[1])]}" if int(match[1]) in pointers else match[0]

    text = re.sub(rf"(?<![\w$]){re.escape(entry)}_param_(\d+)\b", renamed, text)
    return text.replace(f".entry {entry}(", f".entry {symbol}("), left


def _without_other_kernels(ptx: str, entry: str) -> str:
    """Returns the PTX without other kernels."""
    parts, end = [], 0
    for head in _ENTRY.finditer(ptx):
        parts.append(ptx[end : head.start()])
        end = _closed(ptx, head.end())
        if head[1] == entry:
            parts.append(ptx[head.start() : end])
    return "".join((*parts, ptx[end:]))


def _closed(ptx: str, start: int) -> int:
    """Returns the position after the bracket that closes the one at `start`."""
    depth = 0
    for bracket in re.compile(r"[{}]").finditer(ptx, start):
        depth += 1 if bracket[0] == "{" else -1
        if not depth:
            return bracket.end()
    return len(ptx)


def _without_loads(text: str, entry: str, constants: Mapping[int, bytes]) -> str:
    widths = {prefix: int(bits) for bits, prefix in _REGISTERS.findall(text)}
    load = re.compile(rf"ld\.param\.([usbf])(\d+)\s+(%\w+),\s*\[{re.escape(entry)}_param_(\d+)(?:\+(\d+))?\];")

    def moved(match: re.Match[str]) -> str:
        """Replaces the load of a constant parameter by a move."""
        kind, bits, register, number, offset = match[1], int(match[2]), match[3], int(match[4]), int(match[5] or 0)
        if number not in constants:
            return match[0]
        data = constants[number][offset : offset + bits // 8]
        if kind == "f":
            return f"mov.f{bits} \t{register}, 0{'f' if bits == 32 else 'd'}{int.from_bytes(data, 'little'):0{bits // 4}X};"
        width = widths.get(register.rstrip("0123456789"), max(bits, 16))  # a load extends to the register's width
        return f"mov.b{width} \t{register}, {int.from_bytes(data, 'little', signed=kind == 's')};"

    return load.sub(moved, text)

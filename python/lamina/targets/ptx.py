"""Assembles PTX and disassembles cubins: runs ptxas and nvdisasm, which come with the triton package, in separate processes."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lamina.core.errors import CompileError

OVERRIDE = "LAMINA_PTXAS"
BLACKWELL = 100  # triton has a separate assembler from here on


@dataclass(frozen=True)
class Resources:
    """Resource usage of a kernel, as ptxas reports it.

    kernel     its name
    registers  of a thread
    shared     bytes of static shared memory of a block
    stack      bytes of local memory of a thread
    spill_stores, spill_loads  bytes that a thread writes and reads there because registers ran out
    """

    kernel: str
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True)
class Assembled:
    """A cubin with the resource usage of its kernels."""

    cubin: bytes
    resources: tuple[Resources, ...]


def assemble(ptx: str, arch: str, *, jobs: int = 1) -> Assembled:
    """Assembles all kernels of a PTX text into one cubin. Raises PtxError if ptxas refuses.

    jobs  threads that ptxas may use
    """
    with tempfile.TemporaryDirectory(prefix="lamina-ptx-") as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx)
        command = [ptxas(arch), f"-arch={arch}", "-v", str(source), "-o", str(target)]
        if jobs > 1:
            command.append(f"-split-compile={jobs}")
        done = _run(command)
        if done.returncode or not target.is_file():
            raise PtxError(_said(done, str(source)), arch, ptx)
        return Assembled(target.read_bytes(), _resources(done.stderr))


def disassemble(cubin: bytes) -> str:
    """Returns the SASS of every kernel in a cubin."""
    with tempfile.TemporaryDirectory(prefix="lamina-sass-") as folder:
        file = Path(folder, "kernels.cubin")
        file.write_bytes(cubin)
        done = _run([tool_path("nvdisasm"), "-c", str(file)])
    if done.returncode:
        raise CompileError(f"nvdisasm failed: {_said(done, str(file))}")
    return done.stdout


class PtxError(Exception):
    """ptxas refused a program.

    message  its errors
    arch     the architecture
    ptx      the text
    """

    def __init__(self, message: str, arch: str, ptx: str) -> None:
        super().__init__(message)
        self.message, self.arch, self.ptx = message, arch, ptx

    @property
    def kernel(self) -> str:
        """The kernel that the message names, or ""."""
        named = re.search(r"(?:entry function|function|Entry function) '([^']+)'", self.message)
        return named[1] if named else ""

    @property
    def line(self) -> int:
        """The line of the PTX that the message names, or 0."""
        numbered = re.search(r"line (\d+)", self.message)
        return int(numbered[1]) if numbered else 0


def ptxas(arch: str) -> str:
    """Returns the path of the assembler for an architecture: LAMINA_PTXAS, else triton's."""
    if given := os.environ.get(OVERRIDE):
        if not os.access(given, os.X_OK):
            raise CompileError(f"{OVERRIDE} names {given}, which cannot be run", remedy=f"unset {OVERRIDE} to use triton's ptxas")
        return given
    number = re.search(r"\d+", arch)
    if number and int(number[0]) >= BLACKWELL and (newer := _tools().get("ptxas-blackwell")):
        return newer
    return tool_path("ptxas")


@cache
def cuda_release(program: str) -> str:
    """Returns an assembler's CUDA release, such as "12.8". Raises CompileError if it does not tell."""
    done = _run([program, "--version"])
    found = re.search(r"release (\d+\.\d+)", done.stdout)
    if found is None:
        raise CompileError(f"{program} does not say which release it is: {_said(done, program)}", remedy="name a ptxas that does")
    return found[1]


def tool_path(name: str) -> str:
    """Returns the path of one of triton's programs. Raises CompileError if it is missing."""
    path = _tools().get(name)
    if path is None:
        raise CompileError(
            f"there is no {name}: GPU code is assembled by the one in the triton package",
            remedy=f"pip install triton{f', or name a ptxas in {OVERRIDE}' if name == 'ptxas' else ''}",
        )
    return path


@cache
def _tools() -> dict[str, str]:
    """Returns triton's programs by name, found without importing triton."""
    spec = find_spec("triton")
    roots = list(spec.submodule_search_locations or []) if spec else []
    folders = [Path(root, "backends", "nvidia", "bin") for root in roots]
    return {file.name: str(file) for folder in folders if folder.is_dir() for file in folder.iterdir()}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompileError(f"{command[0]} does not start: {error.strerror}", remedy="reinstall triton") from error


def _said(done: subprocess.CompletedProcess[str], file: str) -> str:
    """Returns a program's errors in one line, without the name of a temporary file."""
    output = re.sub(r"^ptxas\s*,?\s*", "", (done.stderr + done.stdout).replace(file, ""), flags=re.M)
    lines = [re.sub(r"\s+:", ":", line) for line in output.splitlines()]
    errors = [line for line in lines if "error" in line or "fatal" in line] or lines
    return "; ".join(line.strip() for line in errors if line.strip()) or f"exit status {done.returncode}"


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def _resources(log: str) -> tuple[Resources, ...]:
    """Parses the log of ptxas -v, which prints three lines for each kernel."""
    resources = []
    kernel, stack = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            kernel = entry[1]
        elif sizes := _STACK.search(line):
            stack = (int(sizes[1]), int(sizes[2]), int(sizes[3]))
        elif kernel and (used := _USED.search(line)):
            resources.append(Resources(kernel, int(used[1]), int(used[2] or 0), *stack))
            kernel = ""
    return tuple(resources)

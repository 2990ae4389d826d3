"""A driver that stands in for NVIDIA's: Inputs/fake_libcuda.c, built once a session, seen through ctypes."""

import ctypes
import gc
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lamina.core.program import Launch, Program
from lamina.runtime.executable import Executable
from lamina.runtime.gpu import Driver

SOURCE = Path(__file__).parent / "Inputs" / "fake_libcuda.c"
TARGET = "nvvm:sm_90a"


class _Record(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_char * 32),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
        ("dependent", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p * 4),
    ]


@dataclass(frozen=True)
class Launched:
    kernel: str
    grid: int
    grid_yz: tuple[int, int]
    threads: int
    threads_yz: tuple[int, int]
    shared: int
    cluster: int
    dependent: bool
    stream: int | None
    arguments: tuple[int, ...]


class FakeGpu:
    """The library, its counters by name (`gpu["loads"]`) and its launches."""

    def __init__(self, path: Path) -> None:
        self.driver = Driver(str(path), "cpu")
        self.library = ctypes.CDLL(str(path))

    def __getitem__(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, f"fake_{name}").value

    def __setitem__(self, name: str, value: int) -> None:
        kind = ctypes.c_void_p if name == "stream" else ctypes.c_int
        kind.in_dll(self.library, f"fake_{name}").value = value

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Makes one call of a function fail, after `after` calls that succeed."""
        self.library.fake_fail(function.encode(), code, after)

    def launches(self) -> list[Launched]:
        """Returns the launches since the last call of this."""
        return self._records("launches", "launch_count")

    def nodes(self) -> list[Launched]:
        """Returns the kernels added to graphs without capture since the last call of this; `dependent`: by the edge from the one
        before."""
        return self._records("nodes", "node_count")

    def _records(self, name: str, count: str) -> list[Launched]:
        records = (_Record * 256).in_dll(self.library, f"fake_{name}")
        found = [
            Launched(
                kernel=r.kernel.decode(),
                grid=r.grid[0],
                grid_yz=(r.grid[1], r.grid[2]),
                threads=r.block[0],
                threads_yz=(r.block[1], r.block[2]),
                shared=r.shared,
                cluster=r.cluster,
                dependent=bool(r.dependent),
                stream=r.stream,
                arguments=(r.arguments[0], r.arguments[1]),
            )
            for r in records[: self[count]]
        ]
        self[count] = 0
        return found

    def attributes(self) -> list[tuple[int, int]]:
        """Returns the function attributes that were set since the last call of this."""
        pairs = ((ctypes.c_int * 2) * 64).in_dll(self.library, "fake_attributes")
        found = [(pairs[i][0], pairs[i][1]) for i in range(self["attribute_count"])]
        self["attribute_count"] = 0
        return found

    def executable(
        self, program: Program, code: bytes = b"inc\0", kernels: Sequence[str] = ("inc",), recorder: Any = None
    ) -> Executable:
        return Executable(on_gpu(program), Cubin(code, tuple(kernels)), self.driver, recorder)

    def recorder(self, measured: bool = False, limit: int = 64) -> "FakeRecorder":
        return FakeRecorder(self.library, measured, limit)


class FakeRecorder:
    """lamina.runtime.recording.graphs.Recorder for this driver."""

    def __init__(self, library: ctypes.CDLL, measured: bool, limit: int) -> None:
        self.measured, self.limit = measured, limit
        self.library = library
        self.library.fake_end.restype = ctypes.c_void_p
        self.given_up: list[tuple[str, bool]] = []
        self.captures = 0

    def begin(self, gpu: int) -> object:
        self.captures += 1
        self.library.fake_begin()
        return object()

    def end(self, started: object) -> int:
        return int(self.library.fake_end())

    def give_up(self, program: str, why: str, started: object | None) -> None:
        self.given_up.append((why, started is not None))
        if started is not None:
            self.end(started)


@dataclass(frozen=True)
class Cubin:
    code: bytes
    kernels: tuple[str, ...]
    target: str = TARGET
    messages: tuple[str, ...] = ()


def on_gpu(program: Program, **changes: Any) -> Program:
    """Returns a program of the CPU's tests for the GPU, with blocks of 64 threads unless `changes` say otherwise."""
    given = {"threads": 64, **changes}
    steps = tuple(
        replace(s, **{k: v for k, v in given.items() if not getattr(s, k)}) if isinstance(s, Launch) else s for s in program.steps
    )
    return replace(program, device="cuda", steps=steps)


def build(folder: Path, *flags: str) -> FakeGpu:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVIDIA's driver")
    library = folder / "libfakecuda.so"
    subprocess.run([compiler, *flags, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return FakeGpu(library)


def clean(library: FakeGpu) -> Iterator[FakeGpu]:
    """Yields the library with its counters and costs reset to 0, and asserts in the end that nothing is in use."""
    counters = ("launch_count", "node_count", "graph_launches", "copies", "changes", "capturing", "stream")
    costs = ("kernel_us", "graph_us", "launch_us", "replay_us", "late")
    for name in (*counters, *costs):
        library[name] = 0
    library["memory_mib"] = 1 << 17
    yield library
    library.fail("", 0)
    gc.collect()
    left = [library[name] for name in ("depth", "graphs", "sources", "events")]
    assert left == [0, 0, 0, 0], "a context, a graph or an event was left"

"""Tests loading object files into memory: every kind of relocation that LLVM's small PIC code model uses."""

import ctypes
import math
import struct

import llvmlite.binding as llvm
import pytest

from lamina.core.errors import CompileError
from lamina.runtime.elf import Malformed, read
from lamina.runtime.image import Image
from lamina.runtime.loader import Code

SOURCE = """
@table = internal constant [2 x ptr] [ptr @twice, ptr @cos]
@counts = internal global [4 x i64] zeroinitializer
@scale = internal constant <4 x double> <double 1.0, double 2.0, double 3.0, double 4.0>
declare double @cos(double)
declare double @sin(double)

define double @twice(double %x) { %y = fadd double %x, %x  ret double %y }

define void @f(ptr %out, i64 %i) {
  %slot = getelementptr ptr, ptr @table, i64 %i
  %g = load ptr, ptr %slot
  %a = call double %g(double 0.5)
  store double %a, ptr %out
  %b = call double @sin(double 0.5)
  %p1 = getelementptr double, ptr %out, i64 1
  store double %b, ptr %p1
  %n = load i64, ptr @counts
  %m = add i64 %n, 1
  store i64 %m, ptr @counts
  %c = uitofp i64 %m to double
  %p2 = getelementptr double, ptr %out, i64 2
  store double %c, ptr %p2
  %same = icmp eq ptr %g, @cos
  %d = select i1 %same, double 1.0, double 0.0
  %p3 = getelementptr double, ptr %out, i64 3
  store double %d, ptr %p3
  %s = load <4 x double>, ptr @scale
  %p4 = getelementptr double, ptr %out, i64 4
  store <4 x double> %s, ptr %p4, align 8
  ret void
}
"""


def compiled(source: str, reloc: str = "pic") -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc=reloc, codemodel="small", opt=0)
    parsed = llvm.parse_assembly(source)
    parsed.triple = machine.triple
    return machine.emit_object(parsed)


def test_references_of_every_kind() -> None:
    code = Code(compiled(SOURCE), ("f",))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.addresses["f"])
    out = (ctypes.c_double * 8)()
    run(ctypes.addressof(out), 0)
    assert list(out) == [1.0, math.sin(0.5), 1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    run(ctypes.addressof(out), 1)
    assert list(out)[:4] == [math.cos(0.5), math.sin(0.5), 2.0, 1.0]


def test_all_sections_lie_in_one_block() -> None:
    made = read(compiled(SOURCE))
    assert {"cos", "sin"} == set(made.undefined) and len(made.sections) > 3
    image = Image(made, {"cos": 1 << 46, "sin": 1 << 46})  # however far away the libraries are
    places = [image.address(s) for s in made.symbols if s.section is not None]
    assert max(places) - min(places) < 1 << 20


def test_two_copies_have_memory_of_their_own() -> None:
    codes = [Code(compiled(SOURCE), ("f",)) for _ in range(2)]
    out = (ctypes.c_double * 8)()
    for code in codes:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.addresses["f"])(ctypes.addressof(out), 0)
        assert out[2] == 1.0


def test_other_relocations_are_refused() -> None:
    with pytest.raises(CompileError, match="relocation of kind 1[01]"):
        Code(compiled(SOURCE, reloc="static"), ("f",))


def test_objects_of_other_machines_are_refused() -> None:
    code = bytearray(compiled(SOURCE))
    struct.pack_into("<H", code, 0x12, 183)  # aarch64
    with pytest.raises(Malformed, match="not a relocatable object for x86-64"):
        read(bytes(code))

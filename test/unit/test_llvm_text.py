"""Tests the conversion of LLVM 24's floating-point literals to LLVM 22's: exact, and nothing else is changed."""

import struct

import llvmlite.binding as llvm
import numpy as np
import pytest

from lamina.targets.llvm_text import attach, convert, spelling


def bits_of_float(spelt: str) -> int:
    """Returns the f32 bits that LLVM 22 reads from its spelling."""
    (value,) = struct.unpack("<d", struct.pack("<Q", int(spelt, 16)))
    return int(np.float32(value).view(np.uint32))


def test_floats_are_exact(rng: np.random.Generator) -> None:
    for value in rng.integers(0, 1 << 32, 2000, dtype=np.uint32).view(np.float32):
        if np.isfinite(value):
            shortest = np.format_float_scientific(value, trim="k", unique=True)
            assert bits_of_float(spelling("float", shortest)) == value.view(np.uint32)


def test_halves_and_doubles_are_exact(rng: np.random.Generator) -> None:
    for value in rng.integers(0, 1 << 16, 500, dtype=np.uint16).view(np.float16):
        if np.isfinite(value):
            assert spelling("half", np.format_float_scientific(value)) == f"0xH{value.view(np.uint16):04X}"
    for value in rng.integers(0, 1 << 64, 500, dtype=np.uint64).view(np.float64):
        if np.isfinite(value):
            assert spelling("double", repr(float(value))) == f"0x{value.view(np.uint64):016X}"


@pytest.mark.parametrize(
    ("of", "literal", "expected"),
    [
        ("float", "+inf", "0x7FF0000000000000"),
        ("float", "-inf", "0xFFF0000000000000"),
        ("float", "+qnan", "0x7FF8000000000000"),
        ("float", "-nan(0x1)", "0xFFF8000020000000"),
        ("float", "f0x3F800000", "0x3FF0000000000000"),
        ("double", "+qnan", "0x7FF8000000000000"),
        ("half", "1.5", "0xH3E00"),
        ("bfloat", "1.5", "0xR3FC0"),
        ("bfloat", "-inf", "0xRFF80"),
    ],
)
def test_spellings(of: str, literal: str, expected: str) -> None:
    assert spelling(of, literal) == expected


def test_every_place_a_literal_stands_in() -> None:
    text = """
define <2 x float> @f(float %x, double %y, <2 x float> %v) {
entry:
  %a = fmul float %x, 0.1
  %b = fcmp olt double %y, -2.5e-3
  br i1 %b, label %then, label %end
then:
  br label %end
end:
  %p = phi float [ 0.1, %entry ], [ %a, %then ]
  %q = fadd <2 x float> %v, splat (float 0.1)
  %r = select i1 %b, <2 x float> %q, <2 x float> <float +inf, float -0.3>
  %s = insertelement <2 x float> %r, float %p, i32 0
  ret <2 x float> %s
}
!0 = !{!"float 0.1 stays"}
"""
    llvm.parse_assembly(convert(text)).verify()
    assert "0.1" not in convert(text).replace("float 0.1 stays", "") and "float 0.1 stays" in convert(text)


def test_attributes_go_on_definitions() -> None:
    text = attach("declare void @g()\ndefine void @f(ptr %0) {\n  ret void\n}\n", {"prefer-vector-width": "512"})
    assert 'define void @f(ptr %0) "prefer-vector-width"="512" {' in text and "declare void @g()\n" in text

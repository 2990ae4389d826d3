"""Lists the element types of tensors with their sizes and their names in torch, MLIR, Triton and C++."""

from typing import NamedTuple


class ElementType(NamedTuple):
    """An element type of tensors in memory.

    name      in programs: "f16"
    bytes     of an element
    torch     the dtype of torch: "float16"
    mlir      the type as MLIR prints it; "" for unsigned integers, which an attribute distinguishes from signed ones
    pointee   in signatures of Triton kernels: "fp16"; "" if Triton has no such type
    language  in triton.language: "float16"
    cuda      the type in CUDA C++, then its other names
    """

    name: str
    bytes: int
    torch: str
    mlir: str
    pointee: str = ""
    language: str = ""
    cuda: tuple[str, ...] = ()


ELEMENT_TYPES = (
    ElementType("bool", 1, "bool", "i1", "i1", "int1", ("bool",)),
    ElementType("u8", 1, "uint8", "", "u8", "uint8", ("unsigned char", "uint8_t")),
    ElementType("i8", 1, "int8", "i8", "i8", "int8", ("signed char", "char", "int8_t")),
    ElementType("i16", 2, "int16", "i16", "i16", "int16", ("short", "int16_t")),
    ElementType("i32", 4, "int32", "i32", "i32", "int32", ("int", "int32_t")),
    ElementType("i64", 8, "int64", "i64", "i64", "int64", ("long long", "int64_t", "long")),
    ElementType("u64", 8, "uint64", "", "u64", "uint64", ("unsigned long long", "uint64_t", "size_t")),
    ElementType("f16", 2, "float16", "f16", "fp16", "float16", ("__half", "half")),
    ElementType("bf16", 2, "bfloat16", "bf16", "bf16", "bfloat16", ("__nv_bfloat16", "nv_bfloat16")),
    ElementType("f32", 4, "float32", "f32", "fp32", "float32", ("float",)),
    ElementType("f64", 8, "float64", "f64", "fp64", "float64", ("double",)),
    ElementType("c64", 8, "complex64", "complex<f32>"),
    ElementType("c128", 16, "complex128", "complex<f64>"),
    ElementType("f8e4m3fn", 1, "float8_e4m3fn", "f8E4M3FN", "fp8e4nv", "float8e4nv", ("__nv_fp8_e4m3",)),
    ElementType("f8e5m2", 1, "float8_e5m2", "f8E5M2", "fp8e5", "float8e5", ("__nv_fp8_e5m2",)),
)

ITEM_BYTES = {type_.name: type_.bytes for type_ in ELEMENT_TYPES}
HALF = ("f16", "bf16")
FROM_MLIR = {type_.mlir: type_ for type_ in ELEMENT_TYPES if type_.mlir}

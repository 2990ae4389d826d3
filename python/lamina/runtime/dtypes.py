"""Maps torch's dtypes to the short names that programs use, and back."""

import torch

CODES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64", torch.complex128: "c128", torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
}  # fmt: skip

DTYPES = {code: dtype for dtype, code in CODES.items()}

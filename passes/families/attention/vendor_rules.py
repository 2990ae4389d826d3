"""Decides which of torch's fused kernels computes an attention, in torch's order of preference.

The rules are those of torch 2.11 to 2.13 (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp and cuda/sdp_utils.cpp), without
its options for AMD. The front end asks whether any kernel computes an attention, lamina-vendor-calls which one.
"""

from dataclasses import dataclass

from lamina.core.sizes import below, typical

CPU, FLASH, EFFICIENT, CUDNN = "cpu", "flash", "efficient", "cudnn"
VENDORS = f"{FLASH} {EFFICIENT} {CUDNN}"
"""The kernels that torch's settings allow by default; `flash` also allows the one for CPUs."""
_HALF = ("f16", "bf16")
_LONGEST, _LONGEST_CUDNN = 256, 128  # elements of a head
_MOST_CUDNN = 65535  # batches and heads
_ALIGNED = 16  # bytes that heads are a multiple of
_SHORT_BACKWARD = (86, 89, 120, 121)  # GPUs whose shared memory is too small for flash attention's gradients of some sizes


@dataclass(frozen=True)
class Case:
    """What decides which kernels compute an attention.

    dtype         of queries, keys and values: "f16", "bf16", "f32", "f64"
    scores        batch, heads, queries, keys
    size, values  elements of a head of queries and keys, and of values
    masked        there is a mask
    trains_mask   the mask needs a gradient
    causal        query i sees keys 0 to i
    backward      the gradients are asked for
    """

    dtype: str
    scores: tuple[int, int, int, int]
    size: int
    values: int
    masked: bool = False
    trains_mask: bool = False
    causal: bool = False
    backward: bool = False


def on_cpu(case: Case, allowed: str = VENDORS) -> str | None:
    """Returns "cpu" where torch's kernel for CPUs computes the attention, else None. allowed: as for `on_gpu`."""
    known = case.dtype in (*_HALF, "f32", "f64") and case.size == case.values and not case.trains_mask
    return CPU if known and FLASH in allowed.split() else None


def on_gpu(case: Case, capability: int = 80, allowed: str = VENDORS) -> str | None:
    """Returns the kernel that torch prefers among those that compute the attention; None without one.

    capability  of the GPU: 90 for sm_90a; the oldest where it is not known
    allowed     the kernels that torch's settings allow, with spaces between
    """
    first = (CUDNN, FLASH, EFFICIENT) if capability // 10 in (9, 10) else (FLASH, EFFICIENT, CUDNN)
    computes = {FLASH: _by_flash(case, capability), EFFICIENT: _by_efficient(case), CUDNN: _by_cudnn(case)}
    return next((name for name in first if name in allowed.split() and computes[name]), None)


def _by_flash(case: Case, capability: int) -> bool:
    _, _, queries, keys = case.scores
    sizes = case.size == case.values <= _LONGEST
    if case.backward and capability in _SHORT_BACKWARD:
        sizes &= not 192 < case.size <= 224
    return case.dtype in _HALF and sizes and not case.masked and (not case.causal or queries == keys)


def _by_efficient(case: Case) -> bool:
    unit = _ALIGNED // (2 if case.dtype in _HALF else 4)
    return case.dtype in (*_HALF, "f32") and case.size % unit == case.values % unit == 0


def _by_cudnn(case: Case) -> bool:
    batch, heads, _, keys = case.scores
    aligned = case.size % 8 == case.values % 8 == 0 and max(typical(batch), typical(heads)) <= _MOST_CUDNN
    sizes = max(case.size, case.values) <= _LONGEST_CUDNN or (case.size, case.values) == (192, 128)
    return case.dtype in _HALF and aligned and sizes and below(1, keys) and not case.trains_mask

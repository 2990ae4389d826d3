"""Math functions that printed kernels call, as Triton text, where Triton's own are slow or missing in its interpreter."""

from lamina.passes.lower.polynomials.error_function import LARGE, SMALL
from lamina.passes.lower.polynomials.hyperbolic import TANH

from .ops import op_text

_JOINED = tuple(
    f"arith.{op}" for op in "addf mulf maximumf minimumf maxnumf minnumf addi muli maxsi minsi maxui minui andi ori xori".split()
)
_MINUS_LOG2_E = -1.4426950408889634
_TWICE_LOG2_E = 2.8853900817779268
# erf(a) = 1 - exp2(-a*q(a)) for a >= 0: least squares, reweighted to minimize the maximum of the absolute error (Lawson)
_BESIDE_ONE = (1.62790859, 0.918416381, 0.148481607, -0.0282536801, 0.000774629065, 0.00148944196, -0.000445507729, 4.53586035e-05)
# erfc(a / sqrt(2)) / 2 = exp2(q(a)*a - 1) for a >= 0: the same fit, for the error of a times that, up to a = 7
_TAIL = (-1.15116215, -0.458830923, -0.0534028672, 0.00812203344, -0.000800443115, 4.10921639e-05, -6.32951924e-07)


def _horner(x: str, highest_first: tuple[float, ...]) -> str:
    text = repr(highest_first[0])
    for c in highest_first[1:]:
        text = f"({text}) * {x} + {c!r}"
    return text


def _function(name: str, says: str, *lines: str) -> str:
    body = "\n".join(f"    {line}" for line in (f'"""{says}"""', *lines))
    return f"@triton.jit\ndef {name}(x):\n{body}"


def _joining(op: str) -> str:
    return f"@triton.jit\ndef {combine_function(op)}(a, b):\n    return {op_text(op, ('a', 'b'), '')}"


def combine_function(op: str) -> str:
    """Returns the name of the Triton function for a binary arith op, as tl.reduce and tl.associative_scan take it."""
    return f"join_by_{op.partition('.')[2]}"


RANDOM_BITS = """@triton.jit
def random_bits(seed, index):
    \"\"\"Word index % 4 of what Philox4x32 makes of the counter index // 4 (lamina/passes/lower/philox.py).\"\"\"
    block = index.to(tl.int64) // 4
    low, high = (block & 0xFFFFFFFF).to(tl.uint32), (block >> 32).to(tl.uint32)
    a, b, c, d = tl.philox(seed.to(tl.uint64), low, high, low * 0, low * 0, 7)
    word = index % 4
    return tl.where(word < 2, tl.where(word == 0, a, b), tl.where(word == 2, c, d)).to(tl.int32, bitcast=True)"""
JOIN_STEPS = """@triton.jit
def join_steps(factor, total, next_factor, next_total):
    \"\"\"Two runs of steps of a recurrence as one: the product of their factors, and what they make of 0.\"\"\"
    return factor * next_factor, total * next_factor + next_total"""
JOIN_LOG_SUMS = """@triton.jit
def join_log_sums(a, b):
    \"\"\"log(exp(a) + exp(b)). Equal infinities have no difference.\"\"\"
    largest, least = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL), tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    return largest + tl.log(1.0 + tl.exp(tl.where(a == b, 0.0, least - largest)))"""
_SIGN = "tl.where(x < 0, -large, large)"
FUNCTIONS = {
    "erf": _function(
        "erf",
        "At most 2 ulp: x + x*q(x*x) below 0.92, 1 - exp(-a*q(a)) above (lamina/passes/lower/gpu_math/single.py).",
        "a, square = tl.abs(x), x * x",
        f"large = 1.0 - tl.exp2(({_horner('a', tuple(c * _MINUS_LOG2_E for c in LARGE))}) * a)",
        f"small = ({_horner('square', SMALL)}) * x + x",
        f"return tl.where(a < 0.92, small, {_SIGN})",
    ),
    "erf_beside_one": _function(
        "erf_beside_one",
        "With an absolute error of at most 2**-23, for 1 + erf(x), which has no more digits.",
        "a = tl.abs(x)",
        f"large = 1.0 - tl.exp2(-a * ({_horner('a', _BESIDE_ONE[::-1])}))",
        f"return {_SIGN}",
    ),
    "erf_gelu": _function(
        "erf_gelu",
        "x/2 * (1 + erf(x/sqrt(2))) as max(x, 0) - |x| * erfc(|x|/sqrt(2))/2: at most 3e-7 * (1 + |x|), above -6 at most 0.1 %.",
        "a = tl.minimum(tl.abs(x), 16.0)",
        f"tail = tl.exp2(({_horner('a', _TAIL[::-1])}) * a - 1.0)",
        "return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) - a * tail",
    ),
    **{combine_function(op): _joining(op) for op in _JOINED},
    "join_steps": JOIN_STEPS,
    "join_log_sums": JOIN_LOG_SUMS,
    "random_bits": RANDOM_BITS,
    "tanh": _function(
        "tanh",
        "At most 4 ulp: an odd polynomial below 0.55, 1 - 2/(exp(2|x|) + 1) above (lamina/passes/lower/gpu_math/single.py).",
        "a, square = tl.abs(x), x * x",
        f"large = 1.0 - 2.0 / (tl.exp2(a * {_TWICE_LOG2_E}) + 1.0)",
        f"small = ({_horner('square', TANH)}) * square * x + x",
        f"return tl.where(a < 0.55, small, {_SIGN})",
    ),
}
"""Maps a function's name to its text."""

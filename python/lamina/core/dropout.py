"""Thresholds of dropout. A weight is kept where a 16-bit random number is below a bound, so that one draw of 128 bits
decides on eight weights."""

NUMBERS = 1 << 16


def keep_bound(dropout: float) -> int:
    """Returns the bound on a 16-bit number below which a weight is kept."""
    return round((1 - dropout) * NUMBERS)


def keep_scale(dropout: float) -> float:
    """Returns the scale of kept weights: one over the share that is actually drawn, so that their mean stays; 0 if none is
    kept."""
    return NUMBERS / kept if (kept := keep_bound(dropout)) else 0.0

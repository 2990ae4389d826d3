"""What dropout of attention keeps: numbers of 16 bits below a bound, so that one draw of 128 bits is for eight weights."""

NUMBERS = 1 << 16


def bound(dropout: float) -> int:
    """Below which number of 16 bits a weight is kept."""
    return round((1 - dropout) * NUMBERS)


def factor(dropout: float) -> float:
    """What kept weights are multiplied by: one over their share as it is drawn, so that their mean stays; 0 where none are."""
    return NUMBERS / kept if (kept := bound(dropout)) else 0.0

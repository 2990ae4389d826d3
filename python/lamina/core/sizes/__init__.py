"""Symbolic sizes: expressions that take the place of ints for sizes that differ from call to call.

factors.py  symbols, quotients and the like, and bounds of products of them
size.py     Size, a polynomial of factors, its arithmetic and comparisons
strides.py  strides where a size may be 0
values.py   their values at a call
floats.py   floats made of sizes, which are rounded to sizes
solved.py   what equations of them say
text.py     their text
facts.py    what reports say about a symbol
"""

from .factors import LEAST, LOWEST, SizeSymbol, Undecided, at_least, is_bounded, upper_end
from .size import Size, SizeLike, at_most, below, divisor, exact_quotient, known_part, maximum, minimum
from .strides import where_elements
from .text import parse, readable, size_from_json, size_to_json, with_hints, without_hints
from .values import all_symbols, compute_with, evaluate, is_symbolic, substituted, symbol_name, symbols_of, typical, with_symbol

__all__ = [
    "LEAST", "LOWEST", "Size", "SizeLike", "SizeSymbol", "Undecided", "all_symbols", "at_least", "at_most", "below", "compute_with",
    "divisor", "evaluate", "exact_quotient", "is_bounded", "is_symbolic", "known_part", "maximum", "minimum", "parse", "readable",
    "size_from_json", "size_to_json", "substituted", "symbol_name", "symbols_of", "typical", "upper_end", "where_elements",
    "with_hints", "with_symbol", "without_hints",
]  # fmt: skip

"""Lengths of rows that one symbol decides, or a product of symbols, and what replaces it in a kernel for some of them."""

import math
from dataclasses import dataclass

from lamina.core.sizes import (
    Size,
    SizeLike,
    SizeSymbol,
    all_symbols,
    at_least,
    exact_quotient,
    known_part,
    symbol_name,
    typical,
    upper_end,
)


@dataclass(frozen=True)
class LinearLength:
    """A length `factor` * symbol + `plus`.

    product  the product of symbols, such as the pixels of an image, that `symbol` stands for; None for a symbol of the graph
    """

    symbol: SizeSymbol
    factor: int
    plus: int
    product: Size | None = None

    @staticmethod
    def of(length: Size) -> "LinearLength | None":
        """Reads a length; None for one of another form."""
        plus = known_part(length)
        product = length - plus
        symbol = next(all_symbols(product), None)
        if symbol is None or not isinstance(product, Size):
            return None
        ((factors, k), *more) = product.terms
        if len(factors) > 1 and k > 0 and not more:
            pixels = Size(((factors, 1),))
            name, high = "_".join(("product", *(s.name for s in all_symbols(pixels)))), upper_end(pixels)
            stands = SizeSymbol(name, typical(pixels), at_least(pixels), None if high == math.inf else int(high))
            return LinearLength(stands, k, plus, pixels)
        if symbol_name(product) == symbol.name:
            return LinearLength(symbol, 1, plus)
        quotient, rest = divmod(product, Size((((symbol,), 1),)))
        return LinearLength(symbol, quotient, plus) if isinstance(quotient, int) and rest == 0 and quotient > 0 else None

    def replaced(self, by: Size) -> tuple[dict[str, SizeLike], dict[Size, Size]]:
        """Returns the symbol, or the product, that `by` stands for in a kernel, as SizeRange's `symbols` and `lengths`."""
        return ({self.symbol.name: by}, {}) if self.product is None else ({}, {self.product: by})

    def within(self, above: int, most: int | None, step: int, long: int) -> Size | None:
        """Returns the replacement of the symbol if the length is more than `above` and at most `most` (None: any, typically `long`
        at least), and `step` divides it. None if no length is like this, or none that the symbol shows."""
        s = self.symbol
        high = s.maximum if most is None else (most - self.plus) // self.factor
        low = max(s.minimum, (above - self.plus) // self.factor + 1)
        if high is not None and high < low:
            return None
        typical = max(s.hint, long // self.factor) if high is None else high
        return self.multiple(Size.of(s.name, typical, low, high), step)

    def multiple(self, symbol: Size, step: int) -> Size | None:
        """Returns the replacement of the symbol if `step` divides the length; None if the symbol cannot express that."""
        d = step // math.gcd(self.factor, step)
        if d == 1:
            return symbol
        if self.plus and self.factor > 1:
            return None
        plus = self.plus if self.factor == 1 else 0
        return exact_quotient(symbol + plus, d) * d - plus  # type: ignore[return-value]

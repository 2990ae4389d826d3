"""Prints IR as text for people (`opt-driver --pretty`).

Tensors in index notation, arithmetic as expressions, steps of a plan as calls with the place of their results. Shorter than MLIR's
own syntax by a factor of three to ten; it does not parse back.
"""

from .printer import readable

__all__ = ["readable"]

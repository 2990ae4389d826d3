"""The exception for ops that cannot be evaluated."""


class NotEvaluable(Exception):
    """Raised for an op without a value on arrays: unknown, undefined, or reading uninitialized elements."""

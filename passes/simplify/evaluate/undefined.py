"""What evaluation raises."""


class NotEvaluable(Exception):
    """An op that has no value on arrays: not known here, undefined, or reading what was never written."""

"""Memoized recursion over long chains."""

from lamina.passes.trace.deep_memo import DeepMemo


def test_chains_of_any_length() -> None:
    memo: DeepMemo[int] = DeepMemo()

    def length(n: int) -> int:
        return memo.get((n,), lambda: 1 + length(n - 1) if n else 1)

    assert length(10_000) == 10_001


def test_errors_are_raised_where_the_result_is_asked_for() -> None:
    """A caller far below the outermost one may catch them."""
    memo: DeepMemo[str] = DeepMemo()

    def name(n: int) -> str:
        def compute() -> str:
            if n == 100:
                raise KeyError(n)
            if n != 5:
                return name(n + 1)
            try:
                return name(n + 1)
            except KeyError:
                return "caught"

        return memo.get((n,), compute)

    assert name(0) == "caught"

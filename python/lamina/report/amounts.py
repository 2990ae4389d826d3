"""Formats numbers for people."""


def counted(n: int, name: str) -> str:
    """Returns "3 kernels" for 3 and "kernel"."""
    return f"{n} {name}{'' if n == 1 else 's'}"


def amount(n: float) -> str:
    """Returns 1234567 as "1.23 M"."""
    units = ["", "k", "M", "G", "T", "P"]
    while abs(n) >= 999.5 and len(units) > 1:
        n, units = n / 1000, units[1:]
    return f"{n:.3g} {units[0]}"


def duration(seconds: float) -> str:
    """Returns seconds as "12.3 us", "1.23 ms" or "1.23 s"."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"

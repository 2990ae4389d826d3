"""Measures math functions of f32 over all 2**32 inputs: `python test/unit/sweep_math.py log2 tan`, about two minutes each.

Functions of two arguments run over 2**32 pairs drawn at random. Prints the largest errors in ulp with their inputs' bits, for
test_math.WORST.
"""

import sys

import numpy as np
import test_math
import torch

from lamina.core.target import Target
from lamina.targets.cpu.backend import CpuBackend

CHUNK = 1 << 16
KEPT = 6


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    test_math.COUNT = CHUNK
    for name in names or list(test_math.FUNCTIONS):
        run = test_math.Compiled(test_math.kernel(name, test_math.LANES), CpuBackend(Target.host()))
        worst = sweep(name, run)
        print(name, " ".join(f"{error:.4f}@{'/'.join(f'0x{i:08x}' for i in inputs)}" for error, inputs in worst), flush=True)


def sweep(name: str, run: test_math.Compiled, start: int = 0, stop: int = 1 << 32) -> list[tuple[float, tuple[int, ...]]]:
    """The largest errors with the bits of their arguments."""
    rng = np.random.default_rng(0)
    found: list[tuple[float, tuple[int, ...]]] = []
    for first in range(start, stop, CHUNK):
        if name in test_math.BINARY:
            arrays = [draw(rng) for _ in range(2)]
        else:
            arrays = [np.arange(first, first + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)]
        got = run(f"{name}_{test_math.LANES}_f32", *arrays)
        with np.errstate(all="ignore"):
            exact = test_math.FUNCTIONS[name](*[torch.from_numpy(a.astype(np.float64)) for a in arrays]).numpy()
            wrong = np.nonzero(got.view(np.int32) != exact.astype(np.float32).view(np.int32))[0]
        error = test_math.ulp_error(got[wrong], exact[wrong])
        floor = found[-1][0] if len(found) == KEPT else 0.5
        for at in np.nonzero(error > floor)[0]:
            found.append((float(error[at]), tuple(int(a.view(np.uint32)[wrong[at]]) for a in arrays)))
        found = sorted(found, reverse=True)[:KEPT]
    return found


def draw(rng: np.random.Generator) -> np.ndarray:
    """Half of them any bit patterns, half near one and of moderate size."""
    return np.concatenate([test_math.any_floats(rng, CHUNK // 2), test_math.scaled(rng, CHUNK - CHUNK // 2)])


if __name__ == "__main__":
    main(sys.argv[1:])

"""Prints the time of flex_attention on this GPU by Lamina and by Inductor, in both passes: `python test/gpu/flex_timings.py
[LENGTH...]`.

bf16, 16 heads, one sequence. A row is what is computed, heads' size, length, and milliseconds: the forward pass of Lamina and of Inductor,
then gradients of both. Minima of 20 rounds in which the contenders take turns.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HEADS, ROUNDS = 16, 20


def cases(length: int) -> dict[str, dict[str, Any]]:
    slopes = torch.exp2(-8 * torch.arange(1, HEADS + 1, device="cuda") / HEADS)
    document = torch.arange(length, device="cuda") // (length // 8)

    def blocks(shows: Callable[..., Tensor]) -> Any:
        return create_block_mask(shows, None, None, length, length, device="cuda")

    causal = blocks(lambda b, h, i, j: i >= j)
    return {
        "causal": {"block_mask": causal},
        "window 256": {"block_mask": blocks(lambda b, h, i, j: (i >= j) & (i - j < 256))},
        "documents": {"block_mask": blocks(lambda b, h, i, j: (i >= j) & (document[i] == document[j]))},
        "slopes": {"block_mask": causal, "score_mod": lambda s, b, h, i, j: s + slopes[h] * (j - i)},
        "soft cap": {"block_mask": causal, "score_mod": lambda s, b, h, i, j: 50 * torch.tanh(s / 50)},
    }


def milliseconds(run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def best(runs: list[Callable[[], Any]]) -> list[float]:
    for run in runs * 3:
        run()
    rounds = [[milliseconds(run) for run in runs] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def measure(name: str, how: dict[str, Any], size: int, length: int) -> None:
    tensors = [torch.randn(1, HEADS, length, size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    grad = torch.randn_like(tensors[0])
    forward, backward, found = [], [], []
    for backend in ("lamina", "inductor"):
        torch._dynamo.reset()
        run = torch.compile(partial(flex_attention, **how), backend=backend, dynamic=False)
        with torch.no_grad():
            run(*tensors)
        out = run(*tensors)
        found.append(out.detach())

        def without(run: Any = run) -> None:
            with torch.no_grad():
                run(*tensors)

        forward.append(without)
        backward.append(partial(torch.autograd.grad, out, tensors, grad, retain_graph=True))
    far = float((found[0].double() - found[1].double()).norm() / found[1].double().norm())
    times = " ".join(f"{t:8.3f}" for t in best(forward) + best(backward))
    print(f"{name:12} d{size:<4} s{length:<6} {times}  difference {far:.1e}", flush=True)


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print("what         size  length   forward: lamina inductor  backward: lamina inductor")
    for length in map(int, sys.argv[1:] or ("2048", "4096", "8192")):
        for size in (64, 128):
            for name, how in cases(length).items():
                try:
                    measure(name, how, size, length)
                except Exception as error:  # the next row may run
                    print(f"{name:12} d{size:<4} s{length:<6} {type(error).__name__}: {str(error)[:200]}", flush=True)
                torch.cuda.empty_cache()

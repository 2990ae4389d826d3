"""The NVIDIA target's choice of passes and options in the shared pipelines."""

from lamina.core.target import Target
from lamina.schedules.nvvm import WALK_CHUNKS
from lamina.schedules.nvvm_rows import WALK_THREADS

from ..steps import Steps, options

# A GPU has room for thousands of programs: enough of them for every multiprocessor to have memory accesses in flight.
_SPLIT = options(rows=32, columns=131072, parts=1024, programs=1056, ragged=WALK_THREADS * WALK_CHUNKS * 16)
_FUSE = options(balance=16)  # an H200 does 67e12 f32 operations while it moves 4.3e12 bytes


def steps(target: Target, *, round_intermediates: bool, freeze_weights: bool, wide_sizes: bool) -> Steps:
    """Returns the passes for a GPU, which packs no weights."""
    for_target = options(target=target)
    return Steps(
        layout=f"lamina-layout{for_target}",
        forms=(f"lamina-pad-products{for_target}", f"lamina-convolution-forms{for_target}"),
        split=_SPLIT,
        fuse=_FUSE,
        ranges=(f"lamina-size-ranges{options(target=target, round_intermediates=round_intermediates)}",),
        tile=options(target=target, round_intermediates=round_intermediates, wide_sizes=wide_sizes),
        choose=(
            f"lamina-select-kernels{options(target=target, wide_sizes=wide_sizes, round_intermediates=round_intermediates)}",
            f"lamina-vendor-calls{for_target}",
        ),
        launch=(f"lamina-horizontal{for_target}", f"lamina-start-early{for_target}"),
    )

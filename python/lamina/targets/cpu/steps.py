"""The CPU target's choice of passes and options in the shared pipelines."""

from lamina.core.target import Target

from ..steps import Steps, options


def steps(target: Target, *, round_intermediates: bool, freeze_weights: bool, wide_sizes: bool) -> Steps:
    """Returns the passes for a processor.

    wide_sizes      changes nothing: sizes have 64 bits
    freeze_weights  weights are packed and prefer channels last; otherwise layouts change only where oneDNN is slow without it
    """
    return Steps(
        layout=f"lamina-layout{options(slow=not freeze_weights)}",
        tile=options(target=target, round_intermediates=round_intermediates),
        choose=("lamina-depthwise", "lamina-vendor-calls"),
    )

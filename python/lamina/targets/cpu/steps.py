"""The passes of a processor that other targets do not have, or have with other options."""

from lamina.core.target import Target

from ..steps import Steps, options


def steps(target: Target, *, round_intermediates: bool, freeze_weights: bool) -> Steps:
    """Returns the passes for a processor.

    freeze_weights  weights are packed, and want channels last; otherwise only what oneDNN is slow at without
    """
    return Steps(
        layout="lamina-layout" if freeze_weights else "lamina-layout{slow=true packed=false transposed=true copied=true}",
        choose=(f"lamina-depthwise{options(target=target)}",),
    )

"""Emits depthwise convolutions and their gradients on CPUs, channel by channel from padded copies of the image."""

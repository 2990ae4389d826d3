"""Schedules of depthwise convolutions and of their gradients on CPUs, channel by channel from padded copies of the image."""

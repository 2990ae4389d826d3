"""Errors, options, the device model and the program format: what every other layer may import."""

"""Errors, options, targets, device models and the program format. Every other layer may import this one."""

"""Schedules: tile shapes of each kind of kernel on each target, and the cost models that rank them.

A schedule is a frozen dataclass; its fields are also the tuning space.
"""

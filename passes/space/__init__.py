"""Iteration spaces and schedules: the loops of one kernel, what they read and write, and how they map to the machine.

In: a group and the expressions of its results. Out: rows and columns with their axes (`space`), the special forms that have kernels
of their own (`contraction`, `implicit_gemm`, `direct_convolution`, `planes`, `scans`, `regions`), and a schedule of vectors,
threads and grid: `forms` decides the axis that blocks run along, `schedule_cpu` and `schedule_gpu` (with `vector_width`) the rest.
"""

"""Memory planning: @main at the graph level becomes a `plan.program`, kernels become functions on buffers.

Values get strides (`layout_preferences`), live ranges (`lifetimes`) and offsets in one arena; groups that do the same share a
function (`outline`); `program` turns the result into a `core.program.Program`.
"""

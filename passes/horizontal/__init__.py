"""lamina-horizontal: joins small independent kernels into one launch.

In and out: a planned module. `steps` finds the dependences, `order` brings launches together, `cost` chooses, `write` joins, and
`arena` packs the buffers again.
"""

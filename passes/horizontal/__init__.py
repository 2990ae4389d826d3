"""lamina-horizontal: small kernels that do not wait for each other become one launch.

In and out: a planned module. `steps` says what reads what, `order` brings launches together, `cost` chooses, `write` joins.
"""

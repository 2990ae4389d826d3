"""Reads and rewrites graphs of torch.fx: values, aliases, effects, sizes, and ops that Lamina adds. All other folders use it."""

"""Reads and rewrites graphs of torch.fx: values, aliases, places, products, Lamina's own ops; what the others share."""

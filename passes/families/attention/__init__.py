"""Attention and its gradients: calls read from the libraries' forms, masks by what they mean, calls of Lamina's kernels."""

"""Attention and its gradients: reads the libraries' calls, analyzes masks, and emits calls of Lamina's kernels."""

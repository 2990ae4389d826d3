"""Decompositions of ops on images: pooling, resizing, sampling, and windows of a dimension."""

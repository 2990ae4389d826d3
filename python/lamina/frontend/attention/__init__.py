"""Attention in captured graphs: recognized where it is written out, kept whole, with dropout, shared heads and written masks."""

"""Attention in captured graphs: recognizes it where it is written out and keeps it whole, with dropout, heads and masks."""

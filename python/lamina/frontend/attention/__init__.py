"""Attention in captured graphs: recognizes it even if it is written out, and keeps it as one op, with dropout, heads and masks."""

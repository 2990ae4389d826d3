"""Measured choice between implementations of one op, and the store of what was chosen."""

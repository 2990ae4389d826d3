"""Decompositions by kind of op, as functions of torch that the table names."""

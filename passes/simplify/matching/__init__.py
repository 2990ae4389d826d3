"""Matching scalar expressions through generics, whatever the order, casts and constants they are written with."""

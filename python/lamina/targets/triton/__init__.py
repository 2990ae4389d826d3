"""Triton as a way down: tile programs -> Triton's text -> PTX."""

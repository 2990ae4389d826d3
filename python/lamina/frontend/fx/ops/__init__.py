"""Ops of Lamina's own that graphs hold."""

"""Rewrites of FX graphs before import: branches, numbers."""

"""Rewrites of FX graphs before import: `normalize`, and what a program cannot hold as it is (branches, checks, writes, numbers)."""

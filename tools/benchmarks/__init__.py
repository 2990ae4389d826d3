"""Workloads, workers and figures of `make bench`."""

"""Autotuning: chooses between implementations of one op by measurement, and stores the choices."""

"""Custom ops of Lamina in FX graphs."""

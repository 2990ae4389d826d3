"""Lamina's passes, one per file. `infra/registry.py` lists them all; `infra/pipeline.py` runs pipelines that mix them with
upstream's."""

"""What passes are and how they run: the base class, the registry, pipeline text and its options, diagnostics.

`registry.PASSES` names every pass of Lamina and the module that holds it; `pipeline.run` runs a text that mixes these with upstream
passes. Nothing here knows what a pass does.
"""

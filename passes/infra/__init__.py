"""Pass infrastructure: the base class, the registry, pipeline text and options, diagnostics, instrumentation.

`registry.PASSES` maps every pass of Lamina to its module and class; `pipeline.run` runs a pipeline that mixes these with upstream
passes. Nothing here knows what a pass does.
"""

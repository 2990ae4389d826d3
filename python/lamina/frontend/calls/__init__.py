"""Calling conventions of compiled graphs: aliases of results, tensors saved for backward, calls without AOTAutograd's wrappers."""

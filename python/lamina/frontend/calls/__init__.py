"""Calling conventions of compiled graphs: padded results, tensors saved for backward, calls without AOTAutograd's wrappers."""

"""How compiled graphs are called: aliases of results, tensors saved for backward, direct calls without AOTAutograd's wrappers."""

"""How each kind of group is tiled on each target: a frozen Config, which is also the tuning space."""

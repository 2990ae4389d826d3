"""Draws random graphs, compares Lamina with eager and torch.compile on each, and shrinks the graphs where it is slower.

graph                what a drawn graph is made of
ops, grammar         draw random graphs
blocks               draws shallow models instead
classes, models      list a graph for each class of graphs, and whole models
worker, pool, turns  measure one graph in a process, run several of these, and lock so that one alone measures
compile_times        times cold compiles
choices, regret      measure all candidates of tuning, and judge the cost models by them
shrink               reduces a slow graph
findings             stores and prints what was found

`tools/cliffs.py` is the command.
"""

"""Draws random graphs, measures Lamina beside eager and torch.compile on each, and shrinks the graphs where it is slower.

`graph` is what a drawn graph is made of, `ops` and `grammar` draw it, `blocks` draws shallow models instead, `classes` has a graph
for each class of graphs, `worker` measures one graph in a process of its own, `pool` runs several of these, `shrink` reduces a slow
graph, `findings` keeps and prints what was found. `tools/cliffs.py` is the command.
"""

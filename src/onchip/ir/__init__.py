"""What runs: the network as a graph of operators over tensors, parts of tensors, and loop nests.

Only frozen data that refuses nonsense lives here.
Nothing here knows of files, machines, plans or costs.
"""

"""From problem to result: every method, its bound and why it stopped.

A room for each question: order and spills, addresses, stacks, mappings.
Nothing here reads or prints files.
"""

"""Order, residencies and addresses together: the exact search and its models (docs/search.md).

Dominance and bounds are stated in the docs and tested alone.
Methods of the papers that decide the same stand here, too.
"""

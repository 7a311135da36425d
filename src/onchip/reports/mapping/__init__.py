"""Mappings: loop nests as text, tables and the page of a layer.

Figures are those of `cost/layer`.
Nothing here decides which mapping is shown.
"""

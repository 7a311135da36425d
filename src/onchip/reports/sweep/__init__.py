"""How sweeps are shown: in words, as an object, and as a page.

What is shown are rows of a store; nothing here computes a point.
"""

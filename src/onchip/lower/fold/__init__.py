"""Operators that become part of others: activations and normalisations join the operator before them.

What is folded keeps all its nodes as members.
Nothing here looks at sizes or machines.
"""

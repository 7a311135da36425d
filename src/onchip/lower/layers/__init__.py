"""Operators as loop nests: the seven loops and groups of each kind that has them.

What is no loop nest is left out with the reason why.
Networks as fused stacks see them are read off here, too.
"""

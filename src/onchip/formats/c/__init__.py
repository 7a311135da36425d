"""A plan as C: a header of offsets and a source that walks the program.

Names are made into identifiers once, in one file.
What the functions of the operators do is the user's.
"""

"""The proven best mapping of a layer (docs/mapping.md).

Floors, orders and chains each have a file and a test of their own.
Compiled pieces keep their plain twins in the tests.
"""

"""Mappers of other works, to be compared with: LOMA, hybrid, random, uneven.

They choose among mappings that the verifier passes.
None of them claims a bound that it does not prove.
"""

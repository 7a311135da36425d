"""Holds an answer against its question: is it legal, and are its figures true.

Everything is recomputed the plain way, from the answer and the question alone.
It imports the data types and nothing else, so that it shares no mistake with what it checks.
"""

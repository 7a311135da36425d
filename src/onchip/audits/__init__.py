"""A second prover: it asks whether anything is better than a claimed bound.

It builds its models straight from the text of the docs, for general solvers, and shares no code with the searches.
What it may relax is its own.
"""

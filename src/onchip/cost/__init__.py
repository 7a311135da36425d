"""What an answer costs and when it happens: models of energy, cycles and traffic.

Every model says in docs what it counts, and an interpreter or an oracle counts the same.
Nothing here searches.
"""

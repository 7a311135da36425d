"""Residencies at a given order: Belady, greedy, pinning, colouring.

Most are baselines or first answers.
None chooses an order.
"""

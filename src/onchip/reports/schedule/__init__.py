"""Schedules: tables and objects of the whole answer.

Figures are those of the schedule's own cost model, which the verifier recomputed.
What a single mapping looks like is shown by `reports/mapping`.
"""

"""Plans: tables, figures, timelines, the page of a plan.

Figures are the verifier's.
Why something moved is asked of `explanations`.
"""

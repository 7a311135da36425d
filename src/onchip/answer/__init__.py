"""Question and answer: problems, programs, mappings, stacks, schedules, results, and what their files hold.

Whoever makes, checks, prices, prints or stores an answer shares these types and nothing else.
No algorithm lives here: whether an answer is legal is for `verify`, what it costs for `cost`.
"""

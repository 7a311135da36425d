"""The files of this program: graphs, accelerators, plans, mappings, strategies, schedules, their schemas.

They are strict: an unknown field or a newer version is refused.
Same content gives the same bytes.
"""

"""Bundled networks and layer tables, as files.

`tools/make_workloads.py` writes them.
No Python lives here: `formats/own` reads them.
"""

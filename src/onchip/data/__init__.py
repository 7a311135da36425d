"""Bundled networks and layer tables as files, which `tools/make_workloads.py` writes."""

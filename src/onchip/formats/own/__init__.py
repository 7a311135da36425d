"""onchip's own files: graphs, accelerators, plans, mappings, strategies, schedules, and their schemas."""

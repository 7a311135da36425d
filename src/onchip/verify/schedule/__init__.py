"""Checks a schedule: groups, tiles, mappings, program and figures, each rule restated."""

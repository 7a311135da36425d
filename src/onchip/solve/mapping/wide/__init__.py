"""Mappings beyond the proven space: each operand cut at its own places, loops that end short; what bounds them all.

They are looked for, not proven (docs/mapping.md, section 8).
"""

"""Tables and pages of mappings."""

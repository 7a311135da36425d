"""The mapping methods by name, and the cache of mappings."""

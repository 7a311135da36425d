"""Does a fusion strategy cost what is claimed? Everything that docs/fused.md counts, once more, from its mappings.

It shares data types with what costs strategies in a search, and nothing else; what a mapping costs is handed in.
Nothing is searched.
"""

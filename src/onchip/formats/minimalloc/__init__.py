"""The CSV files of MiniMalloc: buffers to pack, and where they lie.

Lives are half-open here as there.
Reader and writer agree on the columns.
"""

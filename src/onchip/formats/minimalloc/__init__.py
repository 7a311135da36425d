"""MiniMalloc's CSV files of buffers and offsets."""

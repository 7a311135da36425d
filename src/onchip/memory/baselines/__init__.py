"""Published heuristics: Belady, greedy, OnSRAM, and divide and conquer."""

"""Published heuristics: Belady, greedy, OnSRAM, colouring, and divide and conquer."""

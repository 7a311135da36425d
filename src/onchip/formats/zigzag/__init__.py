"""ZigZag's hardware and workloads."""

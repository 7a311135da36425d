"""When computations and transfers happen, and why they wait."""

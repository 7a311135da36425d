"""Cost of a fused group of layers."""

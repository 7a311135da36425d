"""Operator kinds and the operands that each kind slices."""

"""Minimum requirements of operators, and why an operator does not fit."""

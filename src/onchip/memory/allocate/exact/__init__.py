"""Exact packing: branch and bound in sections, conflicts, ties and a CP-SAT fallback."""

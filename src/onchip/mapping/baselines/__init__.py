"""LOMA, hybrid, random, and DeFiNES's fixed unrolling."""

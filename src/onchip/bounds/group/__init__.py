"""Lower bounds on the cost of fused groups over many tilings."""

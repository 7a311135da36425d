"""Branch and bound over even and uneven tilings."""

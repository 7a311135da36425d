"""Large networks: windows, parts, components and movable orders."""

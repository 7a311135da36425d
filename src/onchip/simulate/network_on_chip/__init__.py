"""A network on a chip, cycle by cycle, and a layer's mapping run on it (docs/network_on_chip.md)."""

"""From placements to movements, addresses and figures."""

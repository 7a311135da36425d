"""Label-setting search over executed sets and residencies."""

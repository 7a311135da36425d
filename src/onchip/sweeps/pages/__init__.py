"""Tables and pages of sweeps."""

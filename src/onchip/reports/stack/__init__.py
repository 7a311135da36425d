"""Tables and pages of fusion strategies."""

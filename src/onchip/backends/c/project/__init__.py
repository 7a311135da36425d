"""A complete C project with weights and a test harness."""

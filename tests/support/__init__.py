"""Support code that several tests use."""

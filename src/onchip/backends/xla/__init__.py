"""Buffer assignments of XLA."""

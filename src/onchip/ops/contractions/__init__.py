"""Matrix products, einsum and attention."""

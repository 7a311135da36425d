"""Cost and timing models of answers; they price, they do not search."""

"""Loop nests, slicing geometry, required regions and fusable layers of operators."""

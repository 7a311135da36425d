"""TFLite models as graphs, and the arena plans in them."""

"""TFLite models as graphs, and their arena plans."""

"""Graph to graph, by a decision that is given."""

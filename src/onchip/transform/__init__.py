"""Graph-to-graph transforms that apply a given decision."""

"""Networks: graph, operators, tensors, tiles, states and loop nests."""

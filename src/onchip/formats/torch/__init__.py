"""Programs of `torch.export` as graphs, read without running them."""

"""What operators of a TFLite model are in C: calls of a C project's kernels, on tensors as the file has them."""

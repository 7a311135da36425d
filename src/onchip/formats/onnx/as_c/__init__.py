"""What the operators of an ONNX model are in C: calls of the kernels of a C project."""

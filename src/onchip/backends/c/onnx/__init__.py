"""C calls of ONNX operators."""

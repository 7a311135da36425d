"""ONNX models as graphs; onnx and onnxruntime are imported when they are used."""

"""ONNX models: read as graphs, run node by node, and marked with a plan.

The packages onnx and onnxruntime are imported here alone, when they are used.
Shapes that a model leaves out are inferred, sizes that it leaves open are given by the user.
"""

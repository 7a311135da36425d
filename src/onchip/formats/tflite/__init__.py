"""TFLite models: read as graphs, run operator by operator, and checked against the arena plan that they may hold.

The packages tflite and ai_edge_litert are imported here alone, when they are used; TensorFlow never.
Feature maps are presented as batch, channels, rows, columns: as in the file, but for the places of their axes.
"""

"""What `torch.export` wrote: graphs of ATen operators read without running them.

The package torch is needed for none of it but the replay of shapes.
Kinds are named as ONNX names them.
"""

"""Loop nests as C, CUDA and OpenCL, and their measurement on this machine."""

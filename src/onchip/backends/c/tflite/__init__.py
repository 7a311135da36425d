"""C calls of TFLite operators."""

"""What onchip searches in C++: packing.

Here lives what takes numbers and gives numbers, and is called a million times; whoever reads it begins with the header
of an algorithm. Not networks, files or messages, and nothing that Python does as fast.
"""

from onchip.native import _core

PackingBuffer = _core.PackingBuffer
PackingOutcome = _core.PackingOutcome
PackingSearch = _core.PackingSearch
StopToken = _core.StopToken

__all__ = ["PackingBuffer", "PackingOutcome", "PackingSearch", "StopToken"]

"""What onchip searches in C++: packing, and what mappings of layers cost.

Here lives what takes numbers and gives numbers, and is called a million times; whoever reads it begins with the header
of an algorithm. Not networks, files or messages, and nothing that Python does as fast.
"""

from onchip.native import _core

LayerAxis = _core.LayerAxis
LayerCosts = _core.LayerCosts
LayerMachine = _core.LayerMachine
LayerShape = _core.LayerShape
MachineLevel = _core.MachineLevel
PackingBuffer = _core.PackingBuffer
PackingOutcome = _core.PackingOutcome
PackingSearch = _core.PackingSearch
StopToken = _core.StopToken

__all__ = [
    "LayerAxis",
    "LayerCosts",
    "LayerMachine",
    "LayerShape",
    "MachineLevel",
    "PackingBuffer",
    "PackingOutcome",
    "PackingSearch",
    "StopToken",
]

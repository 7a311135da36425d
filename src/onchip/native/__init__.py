"""What onchip searches in C++: packing, what mappings of layers cost, LOMA's mappings.

Here lives what takes numbers and gives numbers, and is called a million times; whoever reads it begins with the header
of an algorithm. Not networks, files or messages, and nothing that Python does as fast.
"""

from onchip.native import _core

FactorKind = _core.FactorKind
FilledLevel = _core.FilledLevel
LayerAxis = _core.LayerAxis
LayerCosts = _core.LayerCosts
LayerMachine = _core.LayerMachine
LayerShape = _core.LayerShape
LomaOrders = _core.LomaOrders
MachineLevel = _core.MachineLevel
PackingBuffer = _core.PackingBuffer
PackingOutcome = _core.PackingOutcome
PackingSearch = _core.PackingSearch
StopToken = _core.StopToken
UnevenCut = _core.UnevenCut
UnevenSearch = _core.UnevenSearch

__all__ = [
    "FactorKind",
    "FilledLevel",
    "LayerAxis",
    "LayerCosts",
    "LayerMachine",
    "LayerShape",
    "LomaOrders",
    "MachineLevel",
    "PackingBuffer",
    "PackingOutcome",
    "PackingSearch",
    "StopToken",
    "UnevenCut",
    "UnevenSearch",
]

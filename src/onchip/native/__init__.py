"""Compiled searches and cost models: packing, ordering with spills, timing, and mappings of layers.

This package holds code that takes and returns numbers and runs millions of times. Each C++ header describes one
algorithm. Networks, files and messages stay in Python, and so does all code that is fast enough there.
"""

from onchip.native import _core

BufferLives = _core.BufferLives
ExactMapper = _core.ExactMapper
ExactNest = _core.ExactNest
ExactObjective = _core.ExactObjective
ExactRefiner = _core.ExactRefiner
ExactSpace = _core.ExactSpace
ExactWay = _core.ExactWay
FactorKind = _core.FactorKind
FilledLevel = _core.FilledLevel
JointOperator = _core.JointOperator
JointOutcome = _core.JointOutcome
JointSearch = _core.JointSearch
JointTensor = _core.JointTensor
LatencyAccess = _core.LatencyAccess
LatencyBands = _core.LatencyBands
LatencyMachine = _core.LatencyMachine
LatencyPlacing = _core.LatencyPlacing
LatencyRoom = _core.LatencyRoom
LatencyStay = _core.LatencyStay
LatencyTensor = _core.LatencyTensor
LatencyTiming = _core.LatencyTiming
LatencyWholeOperator = _core.LatencyWholeOperator
LatencyWholeTensor = _core.LatencyWholeTensor
LayerAxis = _core.LayerAxis
LayerCosts = _core.LayerCosts
LayerMachine = _core.LayerMachine
LayerShape = _core.LayerShape
LayoutOperator = _core.LayoutOperator
LayoutStay = _core.LayoutStay
LayoutTensor = _core.LayoutTensor
LomaOrders = _core.LomaOrders
MachineLevel = _core.MachineLevel
OrderBeam = _core.OrderBeam
PackingAttempt = _core.PackingAttempt
PackingFinding = _core.PackingFinding
PackingRequest = _core.PackingRequest
PeakOperator = _core.PeakOperator
PeakOutcome = _core.PeakOutcome
PeakSearch = _core.PeakSearch
PlacedPlan = _core.PlacedPlan
StayGap = _core.StayGap
StaySearch = _core.StaySearch
StopToken = _core.StopToken
UnevenCut = _core.UnevenCut
UnevenSearch = _core.UnevenSearch
WindowChoice = _core.WindowChoice
ZigzagCosts = _core.ZigzagCosts
least_arena = _core.least_arena
least_chain = _core.least_chain
least_chain_below = _core.least_chain_below
pack_buffers = _core.pack_buffers
packing_conflict = _core.packing_conflict
peak_needs = _core.peak_needs
place_in_order = _core.place_in_order

__all__ = [
    "BufferLives",
    "ExactMapper",
    "ExactNest",
    "ExactObjective",
    "ExactRefiner",
    "ExactSpace",
    "ExactWay",
    "FactorKind",
    "FilledLevel",
    "JointOperator",
    "JointOutcome",
    "JointSearch",
    "JointTensor",
    "LatencyAccess",
    "LatencyBands",
    "LatencyMachine",
    "LatencyPlacing",
    "LatencyRoom",
    "LatencyStay",
    "LatencyTensor",
    "LatencyTiming",
    "LatencyWholeOperator",
    "LatencyWholeTensor",
    "LayerAxis",
    "LayerCosts",
    "LayerMachine",
    "LayerShape",
    "LayoutOperator",
    "LayoutStay",
    "LayoutTensor",
    "LomaOrders",
    "MachineLevel",
    "OrderBeam",
    "PackingAttempt",
    "PackingFinding",
    "PackingRequest",
    "PeakOperator",
    "PeakOutcome",
    "PeakSearch",
    "PlacedPlan",
    "StayGap",
    "StaySearch",
    "StopToken",
    "UnevenCut",
    "UnevenSearch",
    "WindowChoice",
    "ZigzagCosts",
    "least_arena",
    "least_chain",
    "least_chain_below",
    "pack_buffers",
    "packing_conflict",
    "peak_needs",
    "place_in_order",
]

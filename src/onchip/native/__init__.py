"""Compiled searches and cost models: packing, ordering with spills, timing, and mappings of layers.

This package holds code that takes and returns numbers and runs millions of times. Each C++ header describes one
algorithm. Networks, files and messages stay in Python, and so does all code that is fast enough there.
"""

from onchip.native._core import *  # noqa: F403

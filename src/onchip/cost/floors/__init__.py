"""What a layer costs at least, whatever its mapping (docs/fusion.md, section 4; docs/schedule.md, section 8).

Floors follow from the machine and the layer's bounds alone. They say nothing of networks, stacks or programs, and
nothing here searches.
"""

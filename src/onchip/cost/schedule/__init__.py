"""What a schedule costs and when its instructions run (docs/schedule.md, sections 3, 5, 7 and 8).

Copies, operators with and without a loop nest, the sums over a program, its timeline and the bound on all of them live
here. What a single loop nest costs is the room `layer`'s to say; how a network is cut into tiles and what is chosen are
handed in, and nothing here searches.
"""

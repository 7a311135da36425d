"""The whole answer: where every map waits, how every tile's loops run, one program.

It composes what the other rooms of `solve` find, and improves the composition by the schedule's own figures.
What a schedule means is in docs/schedule.md; whether one is legal is for `verify`.
"""

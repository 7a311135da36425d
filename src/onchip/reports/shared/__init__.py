"""What all reports share: words for sizes, progress lines, output that cannot be half written.

Nothing here knows of a single kind of answer.
Files are written by `formats`.
"""

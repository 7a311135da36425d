"""Files of all kinds: each reader beside its writer, a room for each tool.

A bad file ends in one line that names the file, the place, what is wrong and what was expected.
What a file means for an answer is decided by who asked for it.
"""

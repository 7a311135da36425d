"""Each use case on one page: resolve names, read, solve, verify, hand out.

Commands and Python users call the same functions.
Nothing leaves here that `verify` has not passed.
"""

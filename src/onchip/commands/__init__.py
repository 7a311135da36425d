"""A file for each verb: arguments and exit codes only.

What verbs share is said once.
What a verb does is in `app`.
"""

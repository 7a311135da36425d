"""Why an answer is as it is: what was reloaded and why, what moved when.

It looks at finished answers.
How it is shown is for `reports`.
"""

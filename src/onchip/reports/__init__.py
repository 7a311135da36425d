"""How answers are shown: text, JSON objects, HTML.

A room for each kind of answer, and one for what they share.
Nothing here computes a figure that the verifier did not.
"""

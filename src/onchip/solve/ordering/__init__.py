"""Orders of the operators: the given one, one of least peak.

What is resident when is decided afterwards.
Bounds on the peak come from `facts`.
"""

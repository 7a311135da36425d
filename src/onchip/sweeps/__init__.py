"""Many questions at once: studies, their points, the store that keeps every answer, and who computes them.

What a point is and what follows from its neighbours is said here, and how points are kept and handed to workers.
How one point is answered is handed in: nothing here knows of a verb's search.
"""

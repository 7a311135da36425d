"""Lower bounds on the cost of a loop nest at a placement."""

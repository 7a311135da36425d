"""Lower bounds of a whole network: compulsory traffic and cost forced by capacity."""

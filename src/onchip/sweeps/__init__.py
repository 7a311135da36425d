"""Studies of many points, the store of their answers, and the comparison of answers."""

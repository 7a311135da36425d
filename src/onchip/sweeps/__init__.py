"""Studies of many points, the store that keeps their answers, and the comparison of answers."""

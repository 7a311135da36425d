"""COSMA's program and Jang's, constraint by constraint."""

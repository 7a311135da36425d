"""The second prover: searches for an answer below a claimed bound, sharing no code with the engines."""

"""Checks that an answer is legal and that its figures are true, from the answer and the problem alone."""

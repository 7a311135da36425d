"""Idle intervals and capacity needs common to every order of the operators."""

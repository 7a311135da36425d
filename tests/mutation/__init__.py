"""Mutation tests of the verifier: change each module in one place at a time, and list changes that no test detects.

Its files are the run and the changes known to be equivalent; `support.mutants` changes modules.
The package is no test, as it takes long: `make mutate`.
"""

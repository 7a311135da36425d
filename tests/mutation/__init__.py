"""Makes every module of the verifier wrong in one thing at a time, and lists what no test finds out.

Its files are the run and what is known to change nothing; how to make a module wrong is in `support.mutants`.
It is no test itself, as it takes long: `make mutate`.
"""

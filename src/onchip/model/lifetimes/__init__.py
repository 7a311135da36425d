"""A planning problem in integers: precedence, uses, windows and inputs that may be overwritten."""

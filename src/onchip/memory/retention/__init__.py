"""CP-SAT models of order, residency, copies, ties, offsets and states."""

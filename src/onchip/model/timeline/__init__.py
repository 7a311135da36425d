"""Times of computations and transfers, and the causes of stalls."""

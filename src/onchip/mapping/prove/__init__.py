"""Branch and bound over unrollings, remainders and longer loops."""

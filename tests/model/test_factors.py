"""Prime factors of loop bounds."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from onchip.model.unrolling.unrolling import padded_bound, prime_counts


@given(st.integers(1, 100_000))
def test_factors_are_primes_that_multiply_to_the_bound(bound: int) -> None:
    counts = prime_counts(bound)
    assert prod(prime**count for prime, count in counts.items()) == bound
    assert all(prime % divisor for prime in counts for divisor in range(2, int(prime**0.5) + 1))
    assert list(counts) == sorted(counts)


@given(st.integers(1, 2_000), st.sampled_from((2, 3, 5, 7, 11)))
def test_a_padded_bound_is_the_least_without_large_primes(bound: int, largest: int) -> None:
    padded = padded_bound(bound, largest)
    assert max(prime_counts(padded), default=1) <= largest
    assert all(max(prime_counts(less)) > largest for less in range(bound, padded))

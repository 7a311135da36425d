"""The prime factors of a loop's bound: what a mapper shares out among levels."""

from __future__ import annotations


def prime_counts(bound: int) -> dict[int, int]:
    """How often each prime divides the bound, ascending; empty for 1."""
    counts: dict[int, int] = {}
    prime = 2
    while bound > 1:
        if prime * prime > bound:
            prime = bound
        while bound % prime == 0:
            counts[prime] = counts.get(prime, 0) + 1
            bound //= prime
        prime += 1
    return counts


def padded_bound(bound: int, largest_prime: int) -> int:
    """The least bound, at least `bound`, without a prime above `largest_prime` (at least 2)."""
    while max(prime_counts(bound), default=1) > largest_prime:
        bound += 1
    return bound


def divisors(bound: int) -> list[int]:
    """Return all divisors of a bound, ascending."""
    found = [1]
    for prime, count in prime_counts(bound).items():
        found = [one * prime**power for one in found for power in range(count + 1)]
    return sorted(found)

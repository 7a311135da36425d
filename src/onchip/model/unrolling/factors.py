"""Prime factors of a loop's bound, which a mapper distributes over levels."""

from __future__ import annotations

from collections.abc import Sequence


def prime_counts(bound: int) -> dict[int, int]:
    """Return the count of each prime factor of the bound, ascending; empty for 1."""
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
    """Return the least number of at least `bound` without a prime factor above `largest_prime` (at least 2)."""
    if max(prime_counts(bound), default=1) <= largest_prime:
        return bound
    primes = [prime for prime in range(3, largest_prime + 1) if prime_counts(prime) == {prime: 1}]
    return _least_product(1, bound, primes, _doubled(1, bound))


def _least_product(product: int, bound: int, primes: Sequence[int], least: int) -> int:
    """Return the minimum of `least` and the least multiple of `product` by 2 and these primes that is >= `bound`."""
    least = min(least, _doubled(product, bound))
    for at, prime in enumerate(primes):
        if product * prime >= least:
            break
        least = _least_product(product * prime, bound, primes[at:], least)
    return least


def _doubled(product: int, bound: int) -> int:
    """Return the least product times a power of 2 that is at least the bound."""
    return product << (-(-bound // product) - 1).bit_length()


def divisors(bound: int) -> list[int]:
    """Return all divisors of a bound, ascending."""
    found = [1]
    for prime, count in prime_counts(bound).items():
        found = [one * prime**power for one in found for power in range(count + 1)]
    return sorted(found)

// Hashing of words, and checks of arguments from Python.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace onchip {

// Hashes a word (the finaliser of SplitMix64).
inline std::uint64_t mixed(std::uint64_t word) {
    word ^= word >> 30U;
    word *= 0xBF58476D1CE4E5B9U;
    word ^= word >> 27U;
    word *= 0x94D049BB133111EBU;
    return word ^ (word >> 31U);
}

// Throws std::invalid_argument with the message and the entry, unless the condition holds.
inline void require(bool is_so, const char* what, std::size_t at) {
    if (!is_so) throw std::invalid_argument(std::string(what) + " (entry " + std::to_string(at) + ")");
}

}  // namespace onchip

// The network with its operators split into the given numbers of bands.

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "latency_bands.hpp"

namespace onchip::latency {

namespace {

Bytes band_bytes(const WholeTensor& tensor, Index width) {
    return width == tensor.channels ? tensor.bytes : (width * tensor.bits_per_channel + 7) / 8;
}

Bytes aligned(Bytes bytes, Bytes alignment_bytes) {
    return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

Cycles cycles_of(const Rate& rate, Bytes bytes) {
    Cycles cycles = 0;
    for (const Term& term : rate) cycles += (bytes * 8 + term.unit_bits - 1) / term.unit_bits * term.cycles;
    return cycles;
}

// By tensor: the channels at which it is split, with both ends.
std::vector<std::vector<Index>> lines_of(const Network& network, const Parts& parts) {
    std::vector<std::vector<Index>> lines(network.tensors.size());
    for (std::size_t of = 0; of < parts.size(); ++of) {
        if (parts[of] == 1) continue;
        for (const auto* side : {&network.operators[of].reads, &network.operators[of].writes}) {
            for (const Operand& operand : *side) {
                const std::int64_t channels = network.tensors[operand.tensor].channels;
                for (Index part = 1; operand.is_cut && part < parts[of]; ++part) {
                    lines[operand.tensor].push_back(static_cast<Index>(part * channels / parts[of]));
                }
            }
        }
    }
    // Copies are split like their original.
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        const Index same = network.tensors[tensor].same_as;
        if (same != none) lines[same].insert(lines[same].end(), lines[tensor].begin(), lines[tensor].end());
    }
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        if (network.tensors[tensor].same_as != none) lines[tensor] = lines[network.tensors[tensor].same_as];
    }
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        auto& one = lines[tensor];
        one.push_back(0);
        one.push_back(network.tensors[tensor].channels);
        std::sort(one.begin(), one.end());
        one.erase(std::unique(one.begin(), one.end()), one.end());
    }
    return lines;
}

// Appends the numbers of an operand's bands that a piece uses; `first` is the number of the tensor's first band.
void add_bands(std::vector<Index>& bands, const std::vector<Index>& lines, Index first, const Operand& operand,
               const Piece& piece) {
    const std::int64_t channels = lines.back();
    std::int64_t start = 0, stop = channels;
    if (operand.is_cut && piece.parts > 1) {
        start = piece.part * channels / piece.parts;
        stop = (piece.part + 1) * channels / piece.parts;
    }
    for (std::size_t at = 0; at + 1 < lines.size(); ++at) {
        if (lines[at] < stop && start < lines[at + 1]) bands.push_back(first + static_cast<Index>(at));
    }
}

// `first`: by tensor, the number of its first band.
void add_tensors(Cut& cut, const Network& network, const std::vector<std::vector<Index>>& lines,
                 const std::vector<Index>& first) {
    for (std::size_t number = 0; number < lines.size(); ++number) {
        const WholeTensor& whole = network.tensors[number];
        const Access& access = network.accesses[whole.memory];
        for (std::size_t at = 0; at + 1 < lines[number].size(); ++at) {
            const Bytes bytes = band_bytes(whole, lines[number][at + 1] - lines[number][at]);
            const Index same = whole.same_as == none ? none : first[whole.same_as] + static_cast<Index>(at);
            cut.sizes_bytes.push_back(bytes);
            cut.problem.tensors.push_back({aligned(bytes, access.alignment_bytes), cycles_of(access.load, bytes),
                                           cycles_of(access.store, bytes), whole.is_in_dram, whole.is_output,
                                           whole.memory, same});
        }
    }
}

void add_predecessors(Problem& problem) {
    std::vector<Index> writer(problem.tensors.size(), none);
    for (std::size_t number = 0; number < problem.operators.size(); ++number) {
        for (const Index tensor : problem.operators[number].writes) writer[tensor] = static_cast<Index>(number);
    }
    for (Operator& one : problem.operators) {
        for (const Index tensor : one.reads) {
            const Index same = problem.tensors[tensor].same_as, written = same == none ? tensor : same;
            if (writer[written] != none) one.predecessors.push_back(writer[written]);
        }
        std::sort(one.predecessors.begin(), one.predecessors.end());
        one.predecessors.erase(std::unique(one.predecessors.begin(), one.predecessors.end()), one.predecessors.end());
    }
}

Cycles cycles_of_one(const WholeOperator& whole, Index parts) {
    for (const Way& way : whole.ways) {
        if (way.parts == parts) return way.cycles;
    }
    throw std::invalid_argument("an operator does not run in " + std::to_string(parts) + " parts");
}

}  // namespace

void Network::check() const {
    for (std::size_t number = 0; number < tensors.size(); ++number) {
        const WholeTensor& one = tensors[number];
        const bool has_memory = one.memory >= 0 && static_cast<std::size_t>(one.memory) < accesses.size();
        const bool has_same = one.same_as >= none && one.same_as < static_cast<Index>(tensors.size());
        if (one.channels < 1 || one.bytes < 0 || one.bits_per_channel < 0 || !has_memory || !has_same) {
            refuse("tensor", number, "network");
        }
    }
    for (std::size_t number = 0; number < operators.size(); ++number) {
        const WholeOperator& one = operators[number];
        if (one.ways.empty() || one.ways.front().parts != 1) refuse("operator", number, "network");
        for (const auto* side : {&one.reads, &one.writes}) {
            for (const Operand& operand : *side) {
                if (operand.tensor < 0 || static_cast<std::size_t>(operand.tensor) >= tensors.size()) {
                    refuse("operator", number, "network");
                }
            }
        }
    }
    const auto is_bad = [](const Term& term) { return term.unit_bits < 1 || term.cycles < 0; };
    for (const Access& one : accesses) {
        if (one.alignment_bytes < 1 || std::any_of(one.load.begin(), one.load.end(), is_bad) ||
            std::any_of(one.store.begin(), one.store.end(), is_bad)) {
            throw std::invalid_argument("alignment and units are at least 1, cycles at least 0");
        }
    }
}

Cut cut(const Network& network, const Parts& parts) {
    if (parts.size() != network.operators.size()) throw std::invalid_argument("parts are not one for each operator");
    const auto lines = lines_of(network, parts);
    std::vector<Index> first(lines.size() + 1, 0);
    for (std::size_t tensor = 0; tensor < lines.size(); ++tensor) {
        first[tensor + 1] = first[tensor] + static_cast<Index>(lines[tensor].size()) - 1;
    }
    Cut found;
    found.problem.machine = network.machine;
    add_tensors(found, network, lines, first);
    for (std::size_t of = 0; of < parts.size(); ++of) {
        const WholeOperator& whole = network.operators[of];
        for (Index part = 0; part < parts[of]; ++part) {
            const Piece piece{static_cast<Index>(of), part, parts[of]};
            Operator one;
            one.cycles = cycles_of_one(whole, parts[of]);
            for (const Operand& each : whole.reads) {
                add_bands(one.reads, lines[each.tensor], first[each.tensor], each, piece);
            }
            for (const Operand& each : whole.writes) {
                add_bands(one.writes, lines[each.tensor], first[each.tensor], each, piece);
            }
            found.pieces.push_back(piece);
            found.problem.operators.push_back(std::move(one));
        }
    }
    add_predecessors(found.problem);
    return found;
}

bool BandSearch::fits(Index of, Index parts) const {
    std::vector<Bytes> free;
    for (const Scratchpad& one : network_.machine.scratchpads) free.push_back(one.capacity_bytes);
    for (const auto* side : {&network_.operators[of].reads, &network_.operators[of].writes}) {
        for (const Operand& operand : *side) {
            const WholeTensor& tensor = network_.tensors[operand.tensor];
            const Index width = operand.is_cut ? tensor.channels / parts : tensor.channels;
            free[tensor.memory] -= aligned(band_bytes(tensor, width), network_.accesses[tensor.memory].alignment_bytes);
        }
    }
    return std::all_of(free.begin(), free.end(), [](Bytes left) { return left >= 0; });
}

}  // namespace onchip::latency

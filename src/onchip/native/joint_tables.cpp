// Validation of a joint problem, and tables derived before the search.

#include <functional>

#include "joint_parts.hpp"
#include "words.hpp"

namespace onchip::joint {

namespace {

constexpr std::size_t most_things = 1 << 24;

void require_rising(const std::vector<Index>& list, std::size_t stop, const char* what, std::size_t at) {
    Index last = none;
    for (Index item : list) {
        require(last < item && item < static_cast<Index>(stop), what, at);
        last = item;
    }
}

}  // namespace

void Problem::check() const {
    require(operators.size() <= most_things && tensors.size() <= most_things, "there are too many", most_things);
    require(0 <= capacity_units && capacity_units <= most_in_all, "a capacity is not between 0 and 2^60", 0);
    Units units = 0;
    Cost costs = 0;
    for (std::size_t at = 0; at < tensors.size(); ++at) {
        const Tensor& one = tensors[at];
        require(0 < one.units && one.units <= most_in_all - units, "units below 1, or all make more than 2^60", at);
        units += one.units;
        for (Cost cost : {one.load_cost, one.store_cost}) {
            require(0 <= cost && cost <= most_in_all - costs, "a cost below 0, or all make more than 2^60", at);
            costs += cost;
        }
    }
    for (std::size_t at = 0; at < operators.size(); ++at) {
        require_rising(operators[at].reads, tensors.size(), "reads are not tensors that rise", at);
        require_rising(operators[at].writes, tensors.size(), "writes are not tensors that rise", at);
        require_rising(operators[at].predecessors, at, "predecessors are not earlier operators that rise", at);
        Index last = none, group = 0;
        for (const Overwritable& one : operators[at].overwritables) {
            require(std::ranges::binary_search(operators[at].reads, one.tensor), "what is overwritten is not read", at);
            require(last < one.tensor || group < one.group, "what is overwritten does not rise in a group", at);
            require(group <= one.group && one.group <= group + 1, "groups do not rise", at);
            require(0 < one.units && one.units <= tensors[one.tensor].units, "units saved are not the tensor's", at);
            last = one.tensor;
            group = one.group;
        }
    }
}

void Options::check(const Problem& problem) const {
    require(0 <= upper_bound && upper_bound <= unlimited, "an upper bound is not between 0 and 2^62", 0);
    const auto steps = static_cast<Cost>(std::max<std::size_t>(problem.operators.size(), 1));
    require(0 <= greed && greed <= most_in_all / steps, "greed is not between 0 and 2^60 for all operators", 0);
    require(0 <= most_bytes && most_bytes <= unlimited, "a limit of bytes is not between 0 and 2^62", 0);
    require(0 < workers && workers <= most_workers, "workers are not between 1 and 256", 0);
}

Tables::Tables(const Problem& problem)
    : tensors(problem.tensors),
      operator_count(static_cast<Index>(problem.operators.size())),
      operator_words(words_for(problem.operators.size())),
      tensor_words(words_for(problem.tensors.size())),
      capacity_units(problem.capacity_units),
      is_overwritable(problem.tensors.size()),
      may_end_short(tensor_words) {
    std::vector<std::vector<Index>> after(problem.operators.size()), reading(tensors.size());
    const auto may_end = [this](Index tensor) { return tensors[tensor].may_end_short; };
    for (Index at = 0; at < operator_count; ++at) {
        const Operator& one = problem.operators[at];
        for (Index before : one.predecessors) after[before].push_back(at);
        for (Index tensor : one.reads) reading[tensor].push_back(at);
        reads.append(one.reads);
        writes.append(one.writes);
        predecessors.append(one.predecessors);
        overwritables.push_back(one.overwritables);
        for (const Overwritable& input : one.overwritables) is_overwritable[input.tensor] = true;
        operands_may_end_short.push_back(std::ranges::any_of(one.reads, may_end) ||
                                         std::ranges::any_of(one.writes, may_end));
        hashes.push_back(mixed(static_cast<Word>(at)));
    }
    for (const auto& list : after) successors.append(list);
    for (Index tensor = 0; tensor < static_cast<Index>(tensors.size()); ++tensor) {
        readers.append(reading[tensor]);
        if (may_end(tensor)) add(may_end_short.data(), tensor);
    }
    for (Index at = 0; at < operator_count; ++at) {
        Left& what = left.emplace_back();
        for (Index tensor : writes[at]) {
            if (readers[tensor].empty()) continue;
            what.units += tensors[tensor].units;
            what.cost += tensors[tensor].load_cost + tensors[tensor].store_cost;
            what.may_end_short = what.may_end_short || may_end(tensor);
        }
    }
}

}  // namespace onchip::joint

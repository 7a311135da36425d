// The construction of a child: evictions, one operator, then all safe operators.

#include "joint_parts.hpp"

namespace onchip::joint {

namespace {

constexpr std::size_t words_of_a_chunk = std::size_t{1} << 15;

}  // namespace

States::States(const Tables& tables, const EvictedSets& sets, Budget& budget)
    : tables_(tables),
      sets_(sets),
      row_words_(2 * static_cast<std::size_t>(tables.operator_words + tables.tensor_words)),
      states_(&budget),
      chunk_bits_(static_cast<int>(std::bit_width(std::max<std::size_t>(words_of_a_chunk / (row_words_ + 1), 1))) - 1),
      chunks_(&budget),
      moves_(&budget) {}

Index States::add_row() {
    if (chunks_.size() << chunk_bits_ == states_.size()) chunks_.emplace_back().resize(row_words_ << chunk_bits_);
    states_.emplace_back().first_move = moves_.size();
    return size() - 1;
}

void States::drop_last() {
    moves_.resize(states_.back().first_move);
    states_.pop_back();
}

void Parcel::append(const Parcel& more) {
    for (State one : more.states) {
        one.first_move += moves.size();
        states.push_back(one);
    }
    rows.insert(rows.end(), more.rows.begin(), more.rows.end());
    moves.insert(moves.end(), more.moves.begin(), more.moves.end());
    least_cost = std::min(least_cost, more.least_cost);
}

void Parcel::clear() {
    states.clear();
    rows.clear();
    moves.clear();
    least_cost = unlimited;
}

void States::move_last_to(Parcel& parcel) {
    const Index last = size() - 1;
    const std::span<const Index> ran = moves(last);
    parcel.states.push_back(states_[last]);
    parcel.states.back().first_move = parcel.moves.size();
    parcel.rows.insert(parcel.rows.end(), row(last), row(last) + row_words_);
    parcel.moves.insert(parcel.moves.end(), ran.begin(), ran.end());
    parcel.least_cost = std::min(parcel.least_cost, states_.back().cost);
    drop_last();
}

// Appends a state of a parcel.
Index States::take(const Parcel& parcel, std::size_t at) {
    const std::size_t first = parcel.states[at].first_move;
    const std::size_t stop = at + 1 < parcel.states.size() ? parcel.states[at + 1].first_move : parcel.moves.size();
    const Index state = add_row();
    states_[state] = parcel.states[at];
    states_[state].first_move = moves_.size();
    moves_.insert(moves_.end(), parcel.moves.data() + first, parcel.moves.data() + stop);
    std::copy_n(parcel.rows.data() + row_words_ * at, row_words_, row(state));
    return state;
}

std::span<const Index> States::moves(Index state) const {
    const std::size_t first = states_[state].first_move;
    const std::size_t stop = state + 1 < size() ? states_[state + 1].first_move : moves_.size();
    return {moves_.data() + first, stop - first};
}

Index States::build_root(const StopToken& stop) {
    const Index root = add_row();
    Word* ready = row(root) + tables_.operator_words;
    for (Index one = 0; one < tables_.operator_count; ++one) {
        if (tables_.predecessors[one].empty()) add(ready, one);
    }
    return run_safe_moves(root, stop) ? root : none;
}

Index States::build(Index parent, Index runs, Index evicted, const StopToken& stop) {
    const Index child = add_row();
    std::copy_n(row(parent), row_words_, row(child));
    const State& before = states_[parent];
    State& after = states_[child];
    after.hash = before.hash;
    after.used_units = before.used_units;
    after.steps = before.steps;
    after.cost = before.cost;
    after.parent = parent;
    after.evicted = evicted;
    Word* resident = row(child) + 2 * tables_.operator_words;
    const std::span<const Index> read = tables_.reads[runs];
    const auto leaves = [&](Index tensor) {
        remove(resident, tensor);
        const Tensor& one = tables_.tensors[tensor];
        const bool has_copy = has(copied(child), tensor);
        after.used_units -= one.units;
        after.cost += one.load_cost + (has_copy ? 0 : one.store_cost);
        if (tables_.tensors[tensor].store_cost > 0) add(resident + tables_.tensor_words, tensor);
    };
    sets_.visit(evicted, [&](Index tensor) {
        if (!std::ranges::binary_search(read, tensor)) leaves(tensor);
    });
    execute(child, runs);
    sets_.visit(evicted, [&](Index tensor) {
        if (std::ranges::binary_search(read, tensor)) leaves(tensor);
    });
    return run_safe_moves(child, stop) ? child : none;
}

Units States::units_over(Index state, Index runs) const {
    return units_with(state, runs) - units_saved(state, runs) - tables_.capacity_units;
}

// Returns the units of operands and residents without overwriting.
Units States::units_with(Index state, Index runs) const {
    Units units = states_[state].used_units;
    for (Index tensor : tables_.reads[runs]) {
        if (!has(resident(state), tensor)) units += tables_.tensors[tensor].units;
    }
    for (Index tensor : tables_.writes[runs]) units += tables_.tensors[tensor].units;
    return units;
}

// Returns the units saved by outputs in the bytes of dead inputs, one of each group.
Units States::units_saved(Index state, Index runs) const {
    Units saved = 0;
    Index group = none;
    for (const Overwritable& one : tables_.overwritables[runs]) {
        if (one.group == group || !is_last_use(state, one.tensor, runs)) continue;
        group = one.group;
        saved += one.units;
    }
    return saved;
}

bool States::fits(Index state, Index runs) const {
    const Units over = units_over(state, runs);
    if (over <= 0) return true;
    if (over > 1) return false;
    if (tables_.operands_may_end_short[runs]) return true;
    const Word* here = resident(state);
    for (Index word = 0; word < tables_.tensor_words; ++word) {
        if ((here[word] & tables_.may_end_short[word]) != 0) return true;
    }
    return false;
}

// Executes an operator that fits: its operands become resident, then dead tensors leave.
void States::execute(Index state, Index runs) {
    State& one = states_[state];
    one.used_units = units_with(state, runs);
    Word* executed = row(state);
    Word* ready = executed + tables_.operator_words;
    Word* resident = ready + tables_.operator_words;
    for (Index tensor : tables_.reads[runs]) add(resident, tensor);
    for (Index tensor : tables_.writes[runs]) add(resident, tensor);
    add(executed, runs);
    remove(ready, runs);
    one.hash ^= tables_.hashes[runs];
    ++one.steps;
    for (Index tensor : tables_.reads[runs]) drop_if_dead(state, tensor, runs);
    for (Index tensor : tables_.writes[runs]) drop_if_dead(state, tensor, runs);
    for (Index successor : tables_.successors[runs]) {
        if (have_all_run(state, tables_.predecessors[successor])) add(ready, successor);
    }
    moves_.push_back(runs);
}

void States::drop_if_dead(Index state, Index tensor, Index runs) {
    if (!is_last_use(state, tensor, runs)) return;
    Word* resident = row(state) + 2 * tables_.operator_words;
    remove(resident, tensor);
    remove(resident + tables_.tensor_words, tensor);
    states_[state].used_units -= tables_.tensors[tensor].units;
}

// Returns true if no other unexecuted operator reads the tensor.
bool States::is_last_use(Index state, Index tensor, Index runs) const {
    const Word* done = executed(state);
    return std::ranges::all_of(tables_.readers[tensor],
                               [&](Index reader) { return reader == runs || has(done, reader); });
}

bool States::have_all_run(Index state, std::span<const Index> operators) const {
    const Word* done = executed(state);
    return std::ranges::all_of(operators, [done](Index one) { return has(done, one); });
}

// Returns false after a stop request.
bool States::run_safe_moves(Index state, const StopToken& stop) {
    for (Index runs = safe_move(state); runs != none; runs = safe_move(state)) {
        if (stop.is_asked()) return false;
        execute(state, runs);
    }
    return true;
}

Index States::safe_move(Index state) const {
    for (Index at = 0; at < tables_.operator_words; ++at) {
        Word left = ready(state)[at];
        while (left != 0) {
            const Index runs = at * word_bits + take_lowest(left);
            if (is_safe(state, runs)) return runs;
        }
    }
    return none;
}

// Returns true if the operator can run now at no cost and without taking room from any later operator.
//
// Its live outputs may replace one input that it frees.
bool States::is_safe(Index state, Index runs) const {
    const Tables::Left& left = tables_.left[runs];
    bool can_stand_in = left.units == 0;
    for (Index tensor : tables_.reads[runs]) {
        const bool is_resident = has(resident(state), tensor);
        if (!is_last_use(state, tensor, runs)) {
            if (!is_resident) return false;
        } else if (is_resident && left.cost <= evict_cost(state, tensor)) {
            const Tensor& freed = tables_.tensors[tensor];
            const Units spare = freed.units - left.units;
            can_stand_in = can_stand_in || spare > 0 || (spare == 0 && (left.may_end_short || !freed.may_end_short));
        }
    }
    return can_stand_in && fits(state, runs);
}

}  // namespace onchip::joint

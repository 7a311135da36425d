// The components of the joint search: tables, states, dominance, queue and evictions.

#include <functional>
#include <iterator>

#include "joint_parts.hpp"
#include "words.hpp"

namespace onchip::joint {

// Validation of a joint problem, and tables derived before the search.

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

// The construction of a child: evictions, one operator, then all safe operators.

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

// Dominance between states.

bool Frontier::enter(Index state) {
    Index& first = first_peer(state);
    for (Index peer = first; peer != none; peer = states_[peer].peer) {
        if (dominates(peer, state)) return false;
    }
    Index* link = &first;
    while (*link != none) {
        State& peer = states_[*link];
        if (dominates(state, *link)) {
            peer.is_dominated = true;
            *link = peer.peer;
        } else {
            link = &peer.peer;
        }
    }
    states_[state].peer = first;
    first = state;
    return true;
}

// Returns the first state with the same executed operators. A different set with the same hash uses the next hash
// value.
Index& Frontier::first_peer(Index state) {
    const Word* mine = states_.executed(state);
    for (Word hash = states_[state].hash;; ++hash) {
        Index& first = first_.try_emplace(hash, none).first->second;
        if (first == none || std::equal(mine, mine + tables_.operator_words, states_.executed(first))) return first;
    }
}

// Returns true if the first state can imitate the second at no higher cost: it evicts its excess tensors and stores the
// copies that only the second has. Both have executed the same operators.
bool Frontier::dominates(Index better, Index worse) const {
    Cost left = states_[worse].cost - states_[better].cost;
    const Word *mine = states_.resident(better), *theirs = states_.resident(worse);
    const Word *my_copies = states_.copied(better), *their_copies = states_.copied(worse);
    for (Index at = 0; at < tables_.tensor_words && left >= 0; ++at) {
        Word excess = mine[at] & ~theirs[at];
        Word copies = their_copies[at] & ~my_copies[at] & ~excess;
        while (excess != 0 && left >= 0) {
            left -= states_.evict_cost(better, at * word_bits + take_lowest(excess));
        }
        while (copies != 0 && left >= 0) left -= tables_.tensors[at * word_bits + take_lowest(copies)].store_cost;
    }
    return left >= 0;
}

// The order of the deferred children.

void Queue::push(const Deferred& child, Cost least_cost, Cost cost, Index steps) {
    by_priority_[{least_cost - options_.greed * steps, options_.greed == 0 ? cost : 0, steps}].push_back(child);
}

Queue::Popped Queue::pop() {
    const auto first = by_priority_.begin();
    auto& alike = first->second;
    if (options_.seed != 0) std::swap(alike.front(), alike[mixed(options_.seed ^ mixed(popped_)) % alike.size()]);
    ++popped_;
    const Popped popped{alike.front(), first->first.priority + options_.greed * first->first.steps};
    alike.pop_front();
    if (alike.empty()) by_priority_.erase(first);
    return popped;
}

// Depth-first enumeration of the inclusion-minimal eviction sets, and the bound on the remaining ones.

namespace {

constexpr int nodes_of_a_choice = 1 << 10;

}  // namespace

Evictions::Evictions(const Tables& tables, const States& states, EvictedSets& sets, Queue& queue, Budget& budget)
    : tables_(tables), states_(states), sets_(sets), queue_(queue), ancestors_(&budget) {}

bool Evictions::defer(const Deferred& choice, const StopToken& stop) {
    Node node = begin(choice);
    for (int count = 0; count < nodes_of_a_choice; ++count) {
        if (stop.is_asked()) return false;
        const bool is_enough = holds(node.over);
        if (is_enough && is_minimal(node.over)) push(choice, node.cost, none);
        const auto places = static_cast<Index>(candidates_.size());
        while (node.following < places && has_to_stay(candidates_[node.following])) ++node.following;
        if (!is_enough && node.following < places && queue_.accepts(states_.least_cost(choice.parent, node.cost))) {
            choose(node);
        } else if (!path_.empty()) {
            take_back(node);
        } else {
            return true;
        }
    }
    push_rest(choice, node);
    return true;
}

// Returns the node at which the evictions of a choice have been made.
Evictions::Node Evictions::begin(const Deferred& choice) {
    list_candidates(choice.parent, choice.runs);
    operands_may_end_short_ = tables_.operands_may_end_short[choice.runs];
    path_.clear();
    Node node{states_.units_over(choice.parent, choice.runs), 0, choice.following};
    sets_.visit(choice.evicted, [&](Index tensor) {
        Candidate& one = *std::ranges::find(candidates_, tensor, &Candidate::tensor);
        one.is_chosen = true;
        node.over -= one.units;
        node.cost += one.cost;
    });
    return node;
}

// Returns true if the remaining tensors fit, given their units above the capacity.
bool Evictions::holds(Units over) const {
    if (over <= 0) return true;
    if (over > 1) return false;
    const auto stays_short = [](const Candidate& one) { return !one.is_chosen && one.may_end_short; };
    return operands_may_end_short_ || std::ranges::any_of(candidates_, stays_short);
}

// Returns true if every eviction is necessary.
bool Evictions::is_minimal(Units over) {
    return std::ranges::none_of(candidates_, [&](Candidate& one) {
        if (!one.is_chosen) return false;
        one.is_chosen = false;
        const bool could_stay = holds(over + one.units);
        one.is_chosen = true;
        return could_stay;
    });
}

// Returns true if the candidate it yields to stays, or if another input of its group is overwritten.
bool Evictions::has_to_stay(const Candidate& one) const {
    if (one.rather != none && !candidates_[one.rather].is_chosen) return true;
    const auto excludes = [&](const Candidate& other) { return other.is_chosen && other.group == one.group; };
    return one.group != none && std::ranges::any_of(candidates_, excludes);
}

void Evictions::choose(Node& node) {
    Candidate& one = candidates_[node.following];
    path_.push_back({node.following, none});
    one.is_chosen = true;
    node.over -= one.units;
    node.cost += one.cost;
    ++node.following;
}

void Evictions::take_back(Node& node) {
    Candidate& one = candidates_[path_.back().candidate];
    one.is_chosen = false;
    node.over += one.units;
    node.cost -= one.cost;
    node.following = path_.back().candidate + 1;
    path_.pop_back();
}

void Evictions::push(const Deferred& choice, Cost cost, Index following) {
    const Cost least = states_.least_cost(choice.parent, cost);
    if (!queue_.accepts(least)) return;
    Index set = choice.evicted;
    for (Chosen& one : path_) {
        if (one.set == none) one.set = sets_.with(set, candidates_[one.candidate].tensor);
        set = one.set;
    }
    queue_.push({choice.parent, choice.runs, set, following}, least, states_[choice.parent].cost + cost,
                states_[choice.parent].steps + 1);
}

// Defers the remaining sets: from a candidate on at this depth, and at each depth of the path.
void Evictions::push_rest(const Deferred& choice, Node node) {
    const Cost worth = worth_of_a_unit(states_.units_over(choice.parent, choice.runs));
    while (true) {
        const Cost least = least_cost_from(node.following, node.over, worth);
        if (least >= 0) push(choice, node.cost + least, node.following);
        if (path_.empty()) return;
        take_back(node);
    }
}

// Returns the price of a unit with the greatest bound over all candidates: the dual of a knapsack.
Cost Evictions::worth_of_a_unit(Units over) const {
    Cost best = 0, best_bound = 0;
    for (const Candidate& one : candidates_) {
        const Cost price = one.cost / one.units;
        const Cost bound = least_cost_from(0, over, price);
        if (bound > best_bound) {
            best = price;
            best_bound = bound;
        }
    }
    return best;
}

// Returns a lower bound on the cost of further evictions from a candidate on, valid for any price of a unit; -1 if all
// candidates together do not suffice.
//
// The last, partial unit is free.
Cost Evictions::least_cost_from(Index following, Units over, Cost worth) const {
    const Units units = std::max<Units>(0, over - 1);
    Units left = 0;
    __int128 bound = static_cast<__int128>(worth) * units;
    for (std::size_t at = following; at < candidates_.size(); ++at) {
        const Candidate& one = candidates_[at];
        left += one.units;
        bound -= std::max<__int128>(0, static_cast<__int128>(worth) * one.units - one.cost);
    }
    if (left < units) return none;
    return static_cast<Cost>(std::max<__int128>(0, bound));
}

// The candidates for eviction, and the dominance between similar ones.

// Lists the residents that the operator does not read, with the candidate that each yields to.
void Evictions::list_candidates(Index state, Index runs) {
    if (listed_ != state) list_residents(state);
    candidates_.clear();
    const std::span<const Index> read = tables_.reads[runs];
    std::ranges::copy_if(residents_, std::back_inserter(candidates_),
                         [read](const Candidate& one) { return !std::ranges::binary_search(read, one.tensor); });
    for (auto one = candidates_.begin(); one != candidates_.end(); ++one) {
        for (auto other = one; other != candidates_.begin() && one->rather == none;) {
            --other;
            if (other->units != one->units) break;
            if (leaves_rather(state, *other, *one)) one->rather = static_cast<Index>(other - candidates_.begin());
        }
    }
    list_overwritables(state, runs);
}

// Lists the inputs that may be overwritten if they are evicted, unless an input of their group is dead then.
void Evictions::list_overwritables(Index state, Index runs) {
    const std::vector<Overwritable>& all = tables_.overwritables[runs];
    for (const Overwritable& one : all) {
        const auto is_dead = [&](const Overwritable& other) {
            return other.group == one.group && states_.is_last_use(state, other.tensor, runs);
        };
        if (std::ranges::any_of(all, is_dead)) continue;
        candidates_.push_back({one.tensor, none, one.units, states_.evict_cost(state, one.tensor), none, one.group,
                               tables_.tensors[one.tensor].may_end_short, false});
    }
}

// Lists residents by decreasing size; for equal sizes by decreasing next use, so that `rather` refers to an earlier
// one.
void Evictions::list_residents(Index state) {
    listed_ = state;
    residents_.clear();
    for (Index at = 0; at < tables_.tensor_words; ++at) {
        Word left = states_.resident(state)[at];
        while (left != 0) {
            const Index tensor = at * word_bits + take_lowest(left);
            const Tensor& one = tables_.tensors[tensor];
            std::size_t first = 0;
            const Index next = next_reader(state, tables_.readers[tensor], first);
            residents_.push_back(
                {tensor, next, one.units, states_.evict_cost(state, tensor), none, none, one.may_end_short, false});
        }
    }
    std::ranges::sort(residents_, [](const Candidate& one, const Candidate& other) {
        if (one.units != other.units) return one.units > other.units;
        if (one.next_reader != other.next_reader) return one.next_reader > other.next_reader;
        return one.tensor < other.tensor;
    });
}

// Returns the first reader from position `at` on that has not run, and sets `at`; none at the end.
Index Evictions::next_reader(Index state, std::span<const Index> readers, std::size_t& at) const {
    const Word* executed = states_.executed(state);
    while (at < readers.size() && has(executed, readers[at])) ++at;
    return at < readers.size() ? readers[at] : none;
}

// Returns true if the first of two candidates of equal size may leave in place of the second.
//
// They must be alike. Either the same operators read both later, and none may overwrite one of them; or a single
// operator reads the second, and it runs before (or is) each later reader of the first.
bool Evictions::leaves_rather(Index state, const Candidate& rather, const Candidate& other) {
    if (tables_.tensors[rather.tensor].load_cost != tables_.tensors[other.tensor].load_cost) return false;
    if (rather.cost != other.cost || rather.may_end_short != other.may_end_short) return false;
    const std::span<const Index> ours = tables_.readers[rather.tensor], theirs = tables_.readers[other.tensor];
    std::size_t our_place = 0, their_place = 0;
    Index mine = next_reader(state, ours, our_place), awaited = next_reader(state, theirs, their_place);
    std::size_t after = their_place + 1;
    if (next_reader(state, theirs, after) == none) {
        for (; mine != none; mine = next_reader(state, ours, ++our_place)) {
            if (mine != awaited && !runs_before(awaited, mine)) return false;
        }
        return true;
    }
    if (tables_.is_overwritable[rather.tensor] || tables_.is_overwritable[other.tensor]) return false;
    while (mine != none && mine == awaited) {
        mine = next_reader(state, ours, ++our_place);
        awaited = next_reader(state, theirs, ++their_place);
    }
    return mine == awaited;
}

bool Evictions::runs_before(Index first, Index second) {
    if (ancestors_.empty()) ancestors_.resize(tables_.operator_count);
    std::pmr::vector<Word>& row = ancestors_[second];
    if (row.empty()) {
        row.resize(tables_.operator_words);
        walked_.assign(1, second);
        while (!walked_.empty()) {
            const Index one = walked_.back();
            walked_.pop_back();
            for (Index before : tables_.predecessors[one]) {
                if (has(row.data(), before)) continue;
                add(row.data(), before);
                walked_.push_back(before);
            }
        }
    }
    return has(row.data(), first);
}

}  // namespace onchip::joint

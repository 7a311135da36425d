/* Walks the tables of a plan as a runtime would, checks each instruction against what is resident,
   and prints what it does. Compiled with PLAN_HEADER, PLAN(name) and IN_CAPITALS(name). */
#include PLAN_HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DRAM 0u

static uint64_t loads, write_backs, moved, resident, peak, computed, alive;
static unsigned char is_live[IN_CAPITALS(RESIDENCIES)];
static unsigned char has_run[IN_CAPITALS(OPERATORS)];

static void expect(int holds, const char *what, uint32_t index)
{
    if (!holds) {
        fprintf(stderr, "instruction %" PRIu32 ": %s\n", index, what);
        exit(EXIT_FAILURE);
    }
}

static uint64_t stop_of(uint32_t residency)
{
    const struct PLAN(residency) *one = &PLAN(residencies)[residency];
    return (uint64_t)one->offset_bytes + PLAN(tensors)[one->tensor].size_bytes;
}

/* Computes between an instruction and the end of a residency. */
static uint32_t computes_until_end(uint32_t index, uint32_t residency)
{
    uint32_t count = 0;
    for (; index < PLAN(residencies)[residency].stop; ++index) {
        count += PLAN(program)[index].kind == IN_CAPITALS(COMPUTE);
    }
    return count;
}

static void allocate(uint32_t index, const struct PLAN(instruction) *step)
{
    const struct PLAN(residency) *one = &PLAN(residencies)[step->residency];
    uint32_t other;
    expect(step->source == step->target && one->memory == step->target, "it is in another memory", index);
    expect(one->start == index && !is_live[step->residency], "it begins elsewhere", index);
    expect(one->offset_bytes % PLAN(memories)[one->memory].alignment_bytes == 0, "it is not aligned", index);
    expect(stop_of(step->residency) <= PLAN(memories)[one->memory].arena_bytes, "it is beyond the arena", index);
    for (other = 0; other < IN_CAPITALS(RESIDENCIES); ++other) {
        const struct PLAN(residency) *two = &PLAN(residencies)[other];
        int shares = is_live[other] && two->memory == one->memory && two->offset_bytes < stop_of(step->residency)
            && one->offset_bytes < stop_of(other);
        int is_in_place = one->offset_bytes == two->offset_bytes && computes_until_end(index, other) == 1;
        expect(!shares || is_in_place, "its bytes are another's", index);
    }
    is_live[step->residency] = 1;
    ++alive;
    resident += PLAN(tensors)[step->subject].size_bytes;
    peak = resident > peak ? resident : peak;
    printf("allocate\t%s\t%s\t%" PRIu64 "\001", PLAN(tensors)[step->subject].name, PLAN(memories)[step->target].name,
           (uint64_t)one->offset_bytes);
}

static void copy(uint32_t index, const struct PLAN(instruction) *step)
{
    uint32_t scratchpad = step->target == DRAM ? step->source : step->target;
    int is_move = step->source != DRAM && step->target != DRAM;
    expect(is_live[step->residency], "it is not resident", index);
    expect(PLAN(residencies)[step->residency].memory == scratchpad, "it is in another memory", index);
    expect(is_move == (step->origin != IN_CAPITALS(RESIDENCIES)), "it comes from a residency if it is a move", index);
    if (is_move) {
        expect(is_live[step->origin], "what is moved is not resident", index);
        expect(PLAN(residencies)[step->origin].memory == step->source, "it comes from another memory", index);
        expect(PLAN(residencies)[step->origin].tensor == step->subject, "another tensor is moved", index);
    }
    *(is_move ? &moved : step->source == DRAM ? &loads : &write_backs) += PLAN(tensors)[step->subject].size_bytes;
    printf("copy\t%s\t%s\t%s\001", PLAN(tensors)[step->subject].name, PLAN(memories)[step->source].name,
           PLAN(memories)[step->target].name);
}

static void compute(uint32_t index, const struct PLAN(instruction) *step)
{
    expect(step->residency == IN_CAPITALS(RESIDENCIES), "an operator has a residency", index);
    expect(step->origin == IN_CAPITALS(RESIDENCIES), "an operator has an origin", index);
    expect(!has_run[step->subject], "the operator has run", index);
    has_run[step->subject] = 1;
    ++computed;
    printf("compute\t%s\001", PLAN(operators)[step->subject]);
}

static void release(uint32_t index, const struct PLAN(instruction) *step)
{
    expect(is_live[step->residency], "it is not resident", index);
    expect(PLAN(residencies)[step->residency].stop == index, "it ends elsewhere", index);
    is_live[step->residency] = 0;
    --alive;
    resident -= PLAN(tensors)[step->subject].size_bytes;
    printf("free\t%s\t%s\001", PLAN(tensors)[step->subject].name, PLAN(memories)[step->source].name);
}

static void walk(uint32_t index, const struct PLAN(instruction) *step)
{
    if (step->kind != IN_CAPITALS(COMPUTE)) {
        expect(PLAN(residencies)[step->residency].tensor == step->subject, "it is another tensor's", index);
    }
    switch (step->kind) {
    case IN_CAPITALS(ALLOCATE): allocate(index, step); break;
    case IN_CAPITALS(COPY): copy(index, step); break;
    case IN_CAPITALS(COMPUTE): compute(index, step); break;
    case IN_CAPITALS(FREE): release(index, step); break;
    }
}

int main(void)
{
    uint32_t index, memory;
    for (index = 0; index < IN_CAPITALS(INSTRUCTIONS); ++index) {
        walk(index, &PLAN(program)[index]);
    }
    for (index = 0; index < IN_CAPITALS(RESIDENCIES); ++index) {
        expect(!is_live[index] || PLAN(residencies)[index].stop == IN_CAPITALS(INSTRUCTIONS), "it never ends", index);
    }
    printf("total\tloads\t%" PRIu64 "\001total\twrite-backs\t%" PRIu64 "\001", loads, write_backs);
    printf("total\tmoved\t%" PRIu64 "\001", moved);
    printf("total\tpeak\t%" PRIu64 "\001total\toperators\t%" PRIu64 "\001", peak, computed);
    printf("total\tresident at the end\t%" PRIu64 "\001", alive);
    for (memory = 1; memory < IN_CAPITALS(MEMORIES); ++memory) {
        printf("total\tarena %s\t%" PRIu64 "\001", PLAN(memories)[memory].name,
               (uint64_t)PLAN(memories)[memory].arena_bytes);
    }
    return EXIT_SUCCESS;
}

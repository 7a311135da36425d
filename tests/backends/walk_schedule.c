/* Walks the tables of a schedule as a runtime would: what is at work in each Compute lies where the tables say, and
   prints operands and mappings. Compiled with PLAN_HEADER, PLAN(name) and IN_CAPITALS(name). */
#include PLAN_HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DRAM 0u

static const uint32_t mappings = IN_CAPITALS(MAPPINGS); /* may be 0, which a constant must not be compared with */
static const char *const kinds[] = {"input", "weight", "output", "other", "workspace"};

static void expect(int holds, const char *what, uint32_t index)
{
    if (!holds) {
        fprintf(stderr, "instruction %" PRIu32 ": %s\n", index, what);
        exit(EXIT_FAILURE);
    }
}

/* Whether a residency of the tensor in the memory lasts over the instruction. */
static int lies_in(uint32_t tensor, uint32_t memory, uint32_t index)
{
    uint32_t at;
    for (at = 0; at < IN_CAPITALS(RESIDENCIES); ++at) {
        const struct PLAN(residency) *one = &PLAN(residencies)[at];
        if (one->tensor == tensor && one->memory == memory && one->start < index && index < one->stop) {
            return 1;
        }
    }
    return 0;
}

static void compute(uint32_t index, uint32_t subject)
{
    const struct PLAN(run) *run = &PLAN(runs)[subject];
    uint32_t at;
    printf("compute\t%s\t%" PRIu32, PLAN(operators)[subject], run->stack);
    expect(run->first_operand + run->operands <= IN_CAPITALS(OPERANDS), "its operands are beyond the table", index);
    for (at = run->first_operand; at < run->first_operand + run->operands; ++at) {
        const struct PLAN(operand) *one = &PLAN(operands)[at];
        expect(one->memory == DRAM || lies_in(one->tensor, one->memory, index), "an operand is elsewhere", index);
        printf("\t%s %s %s", kinds[one->kind], PLAN(tensors)[one->tensor].name, PLAN(memories)[one->memory].name);
    }
    expect(run->first_nest + run->nests <= IN_CAPITALS(NESTS), "its nests are beyond the table", index);
    for (at = run->first_nest; at < run->first_nest + run->nests; ++at) {
        expect(PLAN(nests)[at].mapping < mappings, "there is no such mapping", index);
        printf("\tmapping %" PRIu32, PLAN(nests)[at].mapping);
    }
    printf("\n");
}

static void print_mapping(uint32_t index)
{
    const struct PLAN(mapping) *one = &PLAN(mappings)[index];
    uint32_t at;
    expect(one->first_loop + one->loops <= IN_CAPITALS(LOOPS), "its loops are beyond the table", index);
    expect(one->first_tile + one->tiles <= IN_CAPITALS(TILES), "its tiles are beyond the table", index);
    printf("mapping");
    for (at = 0; at < 8; ++at) {
        printf("\t%" PRIu32, one->bounds[at]);
    }
    for (at = one->first_loop; at < one->first_loop + one->loops; ++at) {
        const struct PLAN(loop) *loop = &PLAN(loops)[at];
        printf("\t%c%" PRIu32 "%s%s", loop->loop, loop->size, loop->along[0] ? "@" : "", loop->along);
    }
    for (at = one->first_tile; at < one->first_tile + one->tiles; ++at) {
        const struct PLAN(tile) *tile = &PLAN(tiles)[at];
        printf("\t%s %s:%" PRIu32, kinds[tile->kind], tile->memory, tile->loops);
    }
    printf("\n");
}

int main(void)
{
    uint32_t index;
    for (index = 0; index < IN_CAPITALS(INSTRUCTIONS); ++index) {
        if (PLAN(program)[index].kind == IN_CAPITALS(COMPUTE)) {
            compute(index, PLAN(program)[index].subject);
        }
    }
    for (index = 0; index < mappings; ++index) {
        print_mapping(index);
    }
    return EXIT_SUCCESS;
}

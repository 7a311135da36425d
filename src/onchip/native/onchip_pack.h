/* Offsets for buffers with known lifetimes, in one memory, with proofs. A C interface to onchip's packing.
 *
 * The library keeps no global state: every function may be called from several threads at once. All sizes and offsets
 * are in bytes. A buffer is live over the steps [start, stop) except in its gaps; two buffers that are live at the
 * same step do not overlap in memory. docs/packing.md explains the search.
 */
#ifndef ONCHIP_PACK_H
#define ONCHIP_PACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define ONCHIP_PACK_API
#else
#define ONCHIP_PACK_API __attribute__((visibility("default")))
#endif

#define ONCHIP_PACK_ABI 1 /* grows with every incompatible change; compare it with onchip_pack_abi() */
#define ONCHIP_PACK_NO_OFFSET (-1)

typedef struct {
    int64_t start, stop; /* lifetime, half-open */
    int64_t size;        /* at least 1 */
    int64_t alignment;   /* the offset is a multiple; at least 1 */
    int64_t offset;      /* fixed offset, or ONCHIP_PACK_NO_OFFSET */
    const int64_t* gaps; /* pairs of start and stop, in order, inside the lifetime; may be NULL */
    size_t gap_count;    /* number of pairs */
} onchip_pack_buffer;

/* Called on the calling thread, about ten times a second. `arena` is ONCHIP_PACK_NO_OFFSET before the first packing.
 * Returns 0 to go on; any other value ends the search with its best packing so far. */
typedef int (*onchip_pack_progress)(int64_t arena, int64_t lower_bound, int64_t nodes, void* user);

typedef struct {
    int64_t capacity;   /* greatest legal end of a buffer, at most 2^60 */
    int32_t minimize;   /* 0: any packing within the capacity; 1: the lowest arena */
    double seconds;     /* time limit; 0 or less: none */
    int64_t most_nodes; /* limit of decisions, for reproducible effort; 0: none */
    uint64_t seed;
    onchip_pack_progress progress; /* may be NULL */
    void* user;                    /* handed to `progress` */
} onchip_pack_options;

typedef enum {
    ONCHIP_PACK_OPTIMAL = 0,    /* a packing whose arena is the proven minimum */
    ONCHIP_PACK_FEASIBLE = 1,   /* a packing within the capacity */
    ONCHIP_PACK_INFEASIBLE = 2, /* a proof that no packing exists */
    ONCHIP_PACK_UNKNOWN = 3,    /* the effort did not suffice */
    ONCHIP_PACK_INVALID = 4     /* an invalid argument; see `message` */
} onchip_pack_status;

typedef struct {
    int64_t arena;       /* highest end of a buffer, or ONCHIP_PACK_NO_OFFSET without a packing */
    int64_t lower_bound; /* of the arena of any packing, proven */
    int64_t nodes;       /* decisions of the exact search */
    char message[120];   /* reason of ONCHIP_PACK_INVALID, else empty */
} onchip_pack_result;

/* The ABI version of the library. */
ONCHIP_PACK_API int onchip_pack_abi(void);

/* Packs `count` buffers. Writes their offsets if there is a packing, and the result in any case. */
ONCHIP_PACK_API onchip_pack_status onchip_pack(const onchip_pack_buffer* buffers, size_t count,
                                               const onchip_pack_options* options, int64_t* offsets,
                                               onchip_pack_result* result);

/* Of an infeasible problem: sets is_in[i] to 1 for buffers that do not fit together, else to 0, and returns
 * ONCHIP_PACK_OPTIMAL if every proper subset provably fits, ONCHIP_PACK_FEASIBLE if that stays open within
 * `most_nodes` for each test and `seconds` in all. Returns ONCHIP_PACK_UNKNOWN if the buffers are not proven
 * infeasible, ONCHIP_PACK_INVALID as above. */
ONCHIP_PACK_API onchip_pack_status onchip_pack_conflict(const onchip_pack_buffer* buffers, size_t count,
                                                        const onchip_pack_options* options, unsigned char* is_in,
                                                        onchip_pack_result* result);

#ifdef __cplusplus
}
#endif
#endif

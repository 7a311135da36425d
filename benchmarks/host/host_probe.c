/* Says what the vectors of this processor are, how many it multiplies and adds in a microsecond, its clock, and how many
 * bytes a microsecond come from buffers of the sizes that it is given. One thread; time is that of the processor, whatever
 * else it does meanwhile; the best of several short runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#define REGISTERS 32
#elif defined(__AVX__)
#define BYTES 32
#define REGISTERS 16
#elif defined(__aarch64__)
#define BYTES 16
#define REGISTERS 32
#else
#define BYTES 16
#define REGISTERS 16
#endif
#define SUMS 12
#define RUNS 7

typedef float vector __attribute__((vector_size(BYTES)));

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static volatile float sink;

static void take(const vector *sums)
{
    float total = 0;
    for (int lane = 0; lane < (int)(BYTES / sizeof(float)); lane++)
        for (int sum = 0; sum < SUMS; sum++)
            total += sums[sum][lane];
    sink = total;
}

/* Vectors multiplied and added in a microsecond: sums enough to wait for none. */
static double multiplied(void)
{
    const long rounds = 200000;
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        vector sums[SUMS] = {{0}};
        vector factor = {0};
        factor += 0.999f + (float)run * 1e-6f;
        for (int sum = 0; sum < SUMS; sum++)
            sums[sum] += (float)(sum + 1);
        const double begin = now();
        for (long round = 0; round < rounds; round++) {
#pragma GCC unroll 12
            for (int sum = 0; sum < SUMS; sum++)
                sums[sum] = sums[sum] * factor + factor;
        }
        const double rate = (double)(rounds * SUMS) / (now() - begin);
        take(sums);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Cycles in a microsecond: a chain of additions, one a cycle; several a round, as a busy core may jump every other cycle. */
static double clocked(void)
{
    const long rounds = 200000;
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        unsigned long chain = (unsigned long)run;
        const double begin = now();
        for (long round = 0; round < rounds; round++) {
#pragma GCC unroll 12
            for (int addition = 0; addition < SUMS; addition++) {
                chain += 3;
                __asm__ volatile("" : "+r"(chain));
            }
        }
        const double rate = (double)(rounds * SUMS) / (now() - begin);
        sink = (float)chain;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Bytes read in a microsecond, over and over, from a buffer. */
static double read_rate(const char *buffer, long bytes)
{
    const long times = 1 + (64L << 20) / bytes;
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        vector sums[SUMS] = {{0}};
        const double begin = now();
        for (long time = 0; time < times; time++) {
            const vector *from = (const vector *)buffer;
            for (long left = bytes / (BYTES * SUMS); left > 0; left--, from += SUMS) {
#pragma GCC unroll 12
                for (int sum = 0; sum < SUMS; sum++)
                    sums[sum] += from[sum];
            }
            __asm__ volatile("" : : : "memory");
        }
        const double rate = (double)times * (double)bytes / (now() - begin);
        take(sums);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Bytes written in a microsecond to a buffer. */
static double write_rate(char *buffer, long bytes)
{
    const long times = 1 + (64L << 20) / bytes;
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        vector value = {0};
        value += (float)run;
        const double begin = now();
        for (long time = 0; time < times; time++) {
            vector *to = (vector *)buffer;
            for (long left = bytes / (BYTES * SUMS); left > 0; left--, to += SUMS) {
#pragma GCC unroll 12
                for (int sum = 0; sum < SUMS; sum++)
                    to[sum] = value;
                __asm__ volatile("" : : : "memory");
            }
        }
        const double rate = (double)times * (double)bytes / (now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int count, char **sizes)
{
    printf("{\"vector_bytes\": %d, \"registers\": %d", BYTES, REGISTERS);
    printf(", \"clock_mhz\": %.1f, \"multiplied_per_microsecond\": %.1f, \"rates\": [", clocked(), multiplied());
    for (int at = 1; at < count; at++) {
        const long bytes = atol(sizes[at]);
        char *buffer = aligned_alloc(4096, (size_t)((bytes + 4095) / 4096 * 4096));
        if (buffer == NULL)
            return 1;
        memset(buffer, 0, (size_t)bytes);
        printf("%s[%.1f, %.1f]", at > 1 ? ", " : "", read_rate(buffer, bytes), write_rate(buffer, bytes));
        free(buffer);
    }
    puts("]}");
    return 0;
}

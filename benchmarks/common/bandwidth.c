/* Reads memory as a decode step does: several streams ahead of each other, every byte once, summed so that nothing is
 * optimised away. One call is one thread's share; the callers' threads run side by side. */
#include <stddef.h>
#include <stdint.h>

enum { STREAMS = 4, WORDS = 8, AHEAD = 256 };

uint64_t read_streams(const uint64_t *data, size_t words) {
    const size_t each = words / STREAMS / WORDS * WORDS;
    uint64_t sums[STREAMS][WORDS] = {{0}};
    for (size_t i = 0; i < each; i += WORDS)
        for (int s = 0; s < STREAMS; s++) {
            const uint64_t *line = data + s * each + i;
            __builtin_prefetch(line + AHEAD);
            for (int w = 0; w < WORDS; w++) sums[s][w] += line[w];
        }
    uint64_t total = 0;
    for (int s = 0; s < STREAMS; s++)
        for (int w = 0; w < WORDS; w++) total += sums[s][w];
    return total;
}

/* The state that every process shares, and what the calls do with it.
 *
 * One file ($MOCK_NVML_STATE), mapped by every process and guarded by a robust mutex in it, so that a process that
 * dies inside a call blocks nobody. Handles hold no pointer: kind, indexes and the serial number that the thing had when
 * the handle was given out, so that a handle of something destroyed is refused in every process. */
#ifndef MOCK_NVML_STATE_H
#define MOCK_NVML_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvml_types.h"

#define MOCK_MAGIC UINT64_C(0x4c4d564e6b636f6d)
#define MIB (UINT64_C(1) << 20)
#define RESERVED_OF_INSTANCE (UINT64_C(12) * MIB)
#define GPM_REFRESH_US INT64_C(100000)

enum { MAX_GPUS = 16, MAX_INSTANCES = 16, MAX_COMPUTES = 8, MAX_PROCESSES = 256, MAX_EVENTS = 256, MAX_RULES = 64 };

typedef enum { BASE, DOUBLE_MEMORY, MEDIA, NO_MEDIA, ALL_MEDIA, GRAPHICS } variant_t;

/* Compiled in from boards.json. ``prefer``: the starts in the order in which the driver tries them by itself;
 * ``only_beside``: one bit a variant, 0 tolerates all. */
typedef struct {
    const char *name;
    uint32_t id, number, slices, size, max_instances, sms, copy_engines, decoders, jpegs, ofas;
    uint64_t memory_mib;
    variant_t variant;
    uint32_t only_beside, start_count, starts[16], prefer[16];
} profile_t;

typedef struct {
    const char *key, *name;
    uint32_t pci_device, architecture, mode_needs_reset, units, sms, ofas, profile_count;
    uint64_t memory_mib;
    const profile_t *profiles;
} board_t;

/* What the performance counters count: how busy it has been ``since_us``, and ``before`` in percent x microseconds. */
typedef struct {
    uint32_t percent;
    int64_t since_us;
    double before;
} work_t;

typedef struct {
    uint32_t live, id, profile, start, size, serial;
    char uuid[96];
} compute_t;

/* ``profile``: its place in the board's table. ``leaked``: handles that some monitor holds open. */
typedef struct {
    uint32_t live, id, profile, start, size, serial, leaked;
    work_t work;
    compute_t compute[MAX_COMPUTES];
} instance_t;

typedef struct {
    char uuid[96], name[96];
    int32_t board; /* -1: a GPU without MIG */
    uint32_t pci_device, architecture, minor;
    uint64_t memory, reserved;
    uint32_t mig_current, mig_pending, compute_mode, lost;
    uint32_t ecc_corrected, ecc_uncorrected, ecc_corrected_ever, ecc_uncorrected_ever;
    uint32_t remap_correctable, remap_uncorrectable, remap_pending, remap_failed, recovery_action;
    uint32_t temperature, power_mw, utilisation, memory_utilisation, clocks_reasons;
    work_t work;
    instance_t instance[MAX_INSTANCES];
} gpu_t;

/* ``checked``: gone when its pid is; ``linger_us``: its memory and its hold on the instance outlast it so long. */
typedef struct {
    uint32_t used, pid, gpu, instance, compute, mps, checked;
    uint64_t bytes;
    int64_t linger_us, died_us;
} process_t;

typedef struct {
    uint64_t sequence, type, data;
    uint32_t gpu, instance, compute;
} event_t;

/* A call of ``symbol`` on ``gpu`` (-1: any) takes longer, or answers ``code`` instead; ``after``: having done its
 * work. ``left``: how often yet, below 0 always; ``until_us``: 0 for ever. */
typedef struct {
    char symbol[80];
    int32_t gpu;
    uint32_t code, after;
    int64_t left, until_us, delay_us, spread_us;
} rule_t;

typedef struct {
    uint64_t magic, size;
    pthread_mutex_t mutex;
    uint32_t loaded, epoch, serial, gpu_count;
    int32_t samples; /* buffers for performance counters that were given out and not given back */
    uint64_t next_event;
    gpu_t gpu[MAX_GPUS];
    process_t process[MAX_PROCESSES];
    event_t event[MAX_EVENTS];
    rule_t rule[MAX_RULES];
} state_t;

extern const board_t BOARDS[];
extern const uint32_t BOARD_COUNT;

/* --- state.c: the mapping, the session, handles ---------------------------------------------------------------- */

typedef struct {
    state_t *state;
    nvmlReturn_t failure_after;
} call_t;

typedef enum { HANDLE_GPU = 1, HANDLE_INSTANCE, HANDLE_COMPUTE, HANDLE_MIG_DEVICE } handle_kind_t;
typedef enum { MAY_MONITOR = 1, MAY_CONFIGURE, MAY_ALL } privilege_t;

/* What a handle stands for; ``instance`` and ``compute`` are NULL where it is of something larger. */
typedef struct {
    gpu_t *gpu;
    instance_t *instance;
    compute_t *compute;
    uint32_t index;
} target_t;

state_t *state_map(const char *path);
void state_lock(state_t *state);
void state_unlock(state_t *state);
int64_t now_us(void);

/* For this process, before and instead of $MOCK_NVML_STATE and $MOCK_NVML_CAPS. */
void session_choose(const char *path, const char *caps);
nvmlReturn_t session_open(void);
nvmlReturn_t session_close(void);
nvmlReturn_t call_begin(call_t *call, const char *symbol, const void *handle);
nvmlReturn_t call_end(call_t *call, nvmlReturn_t result);
nvmlReturn_t require(privilege_t level);

void *handle_make(const state_t *state, handle_kind_t kind, const target_t *target);
/* INVALID_ARGUMENT for another kind or something that is no more, GPU_IS_LOST for a GPU off the bus. */
nvmlReturn_t handle_read(state_t *state, const void *handle, handle_kind_t kind, target_t *target);
/* A GPU or a MIG device. */
nvmlReturn_t device_read(state_t *state, const void *handle, target_t *target);

#define BEGIN(handle)                                                      \
    call_t call;                                                           \
    do {                                                                   \
        nvmlReturn_t begun = call_begin(&call, __func__, (const void *)(handle)); \
        if (begun) return begun;                                           \
    } while (0)
#define END(result) return call_end(&call, (result))
#define REFUSE(condition, code)            \
    do {                                   \
        if (condition) END(code);          \
    } while (0)
#define TRY(result)                        \
    do {                                   \
        nvmlReturn_t tried = (result);     \
        if (tried) END(tried);             \
    } while (0)

/* --- rules.c: what a GPU allows; no call, no lock -------------------------------------------------------------- */

const board_t *board_of(const gpu_t *gpu);
const profile_t *profile_of(const gpu_t *gpu, const instance_t *instance);
bool mig_is_resetless(const gpu_t *gpu);
/* NULL where the board has none. */
const profile_t *profile_with_id(const gpu_t *gpu, uint32_t id);
/* NULL where none has it. */
instance_t *instance_with_id(state_t *state, uint32_t gpu, uint32_t id);
bool start_is_legal(const profile_t *profile, uint32_t start);
bool can_place(const gpu_t *gpu, const profile_t *profile, uint32_t start);
uint32_t remaining_capacity(const gpu_t *gpu, const profile_t *profile);
nvmlReturn_t instance_create(state_t *state, uint32_t gpu, const profile_t *profile, uint32_t start, instance_t **made);
nvmlReturn_t instance_destroy(state_t *state, uint32_t gpu, instance_t *instance);
uint32_t compute_width(const profile_t *profile, uint32_t compute_profile);
uint32_t compute_capacity(const gpu_t *gpu, const instance_t *instance, uint32_t compute_profile);
nvmlReturn_t compute_create(state_t *state, uint32_t gpu, instance_t *instance, uint32_t compute_profile, int64_t start,
                            compute_t **made);
nvmlReturn_t compute_destroy(state_t *state, uint32_t gpu, instance_t *instance, compute_t *compute);
void gpu_clear(gpu_t *gpu);

/* --- gpm.c ----------------------------------------------------------------------------------------------------- */

double work_at(const work_t *work, int64_t at_us);
void work_set(work_t *work, uint32_t percent);

/* --- processes.c, events.c ------------------------------------------------------------------------------------- */

void processes_sweep(state_t *state);
/* ``instance`` and ``compute`` may be NO_ID for any. Those whose memory is not back yet count. */
bool is_held(state_t *state, uint32_t gpu, uint32_t instance, uint32_t compute);
uint64_t bytes_held(state_t *state, uint32_t gpu, uint32_t instance);
void event_post(state_t *state, uint32_t gpu, uint64_t type, uint64_t data, uint32_t instance, uint32_t compute);

#endif

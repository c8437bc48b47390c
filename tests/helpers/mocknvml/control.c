/* What a test does to the machine: makes it, and lets things happen that NVML itself never does. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The size of the state, or 0 with errno: an empty machine whose driver is loaded. */
EXPORT uint64_t mock_create(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return 0;
    state_t *state = MAP_FAILED;
    if (ftruncate(file, sizeof(state_t)) == 0)
        state = mmap(NULL, sizeof(state_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (state == MAP_FAILED) return 0;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&state->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    state->size = sizeof(state_t);
    state->loaded = state->epoch = 1;
    state->magic = MOCK_MAGIC;
    munmap(state, sizeof(state_t));
    return sizeof(state_t);
}

EXPORT state_t *mock_open(const char *path) { return state_map(path); }

EXPORT void mock_use(const char *path, const char *caps) { session_choose(path, caps); }

EXPORT void mock_close(state_t *state) { munmap(state, sizeof(state_t)); }

static int add(state_t *state, const gpu_t *gpu) {
    state_lock(state);
    int index = state->gpu_count < MAX_GPUS ? (int)state->gpu_count : -1;
    if (index >= 0) {
        state->gpu[index] = *gpu;
        state->gpu[index].minor = (uint32_t)index;
        state->gpu_count++;
    }
    state_unlock(state);
    return index;
}

static void describe(gpu_t *gpu, const char *uuid, const char *name) {
    strncpy(gpu->uuid, uuid, sizeof gpu->uuid - 1);
    strncpy(gpu->name, name, sizeof gpu->name - 1);
    gpu->reserved = 448 * MIB;
    gpu->temperature = 38;
    gpu->power_mw = 71500;
}

/* The GPU's index; below 0: no such board, or the machine is full. */
EXPORT int mock_add_board(state_t *state, const char *key, const char *uuid) {
    for (uint32_t i = 0; i < BOARD_COUNT; i++) {
        if (strcmp(BOARDS[i].key, key) != 0) continue;
        gpu_t gpu = {.board = (int32_t)i,
                     .pci_device = BOARDS[i].pci_device,
                     .architecture = BOARDS[i].architecture,
                     .memory = BOARDS[i].memory_mib * MIB};
        describe(&gpu, uuid, BOARDS[i].name);
        return add(state, &gpu);
    }
    return -1;
}

/* One that knows nothing of MIG. */
EXPORT int mock_add_plain(state_t *state, const char *name, const char *uuid, uint32_t pci_device, uint64_t memory) {
    gpu_t gpu = {.board = -1, .pci_device = pci_device, .architecture = NVML_DEVICE_ARCH_ADA, .memory = memory};
    describe(&gpu, uuid, name);
    return add(state, &gpu);
}

#define FIELD(name) {#name, offsetof(gpu_t, name)}
static const struct {
    const char *name;
    size_t offset;
} FIELDS[] = {
    FIELD(mig_current),     FIELD(mig_pending),          FIELD(compute_mode),        FIELD(lost),
    FIELD(ecc_corrected),   FIELD(ecc_uncorrected),      FIELD(ecc_corrected_ever),  FIELD(ecc_uncorrected_ever),
    FIELD(remap_pending),   FIELD(remap_failed),         FIELD(remap_uncorrectable), FIELD(remap_correctable),
    FIELD(recovery_action), FIELD(temperature),          FIELD(power_mw),            FIELD(utilisation),
    FIELD(clocks_reasons),  FIELD(memory_utilisation),   FIELD(minor),
};

static uint32_t *field(state_t *state, uint32_t gpu, const char *name) {
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (strcmp(FIELDS[i].name, name) == 0) return (uint32_t *)((char *)&state->gpu[gpu] + FIELDS[i].offset);
    return NULL;
}

EXPORT int mock_set(state_t *state, uint32_t gpu, const char *name, uint32_t value) {
    uint32_t *found = field(state, gpu, name);
    if (found == NULL) return -1;
    state_lock(state);
    *found = value;
    state_unlock(state);
    return 0;
}

EXPORT int64_t mock_get(state_t *state, uint32_t gpu, const char *name) {
    const uint32_t *found = field(state, gpu, name);
    return found == NULL ? -1 : (int64_t)*found;
}

EXPORT int mock_add_process(state_t *state, uint32_t gpu, uint32_t instance, uint32_t pid, uint64_t bytes, uint32_t mps,
                            uint32_t checked, int64_t linger_us) {
    int result = -1;
    state_lock(state);
    for (uint32_t i = 0; i < MAX_PROCESSES && result < 0; i++) {
        if (state->process[i].used) continue;
        state->process[i] = (process_t){.used = 1,
                                        .pid = pid,
                                        .gpu = gpu,
                                        .instance = instance,
                                        .compute = instance == NO_ID ? NO_ID : 0,
                                        .mps = mps,
                                        .checked = checked,
                                        .bytes = bytes,
                                        .linger_us = linger_us};
        result = (int)i;
    }
    state_unlock(state);
    return result;
}

/* As if it had died now. */
EXPORT void mock_end_process(state_t *state, uint32_t pid) {
    state_lock(state);
    for (uint32_t i = 0; i < MAX_PROCESSES; i++)
        if (state->process[i].used && state->process[i].pid == pid && state->process[i].died_us == 0)
            state->process[i].died_us = now_us();
    processes_sweep(state);
    state_unlock(state);
}

EXPORT void mock_event(state_t *state, uint32_t gpu, uint64_t type, uint64_t data, uint32_t instance, uint32_t compute) {
    state_lock(state);
    event_post(state, gpu, type, data, instance, compute);
    state_unlock(state);
}

EXPORT int mock_add_rule(state_t *state, const char *symbol, int32_t gpu, uint32_t code, uint32_t after, int64_t times,
                         int64_t for_us, int64_t delay_us, int64_t spread_us) {
    rule_t rule = {.gpu = gpu,
                   .code = code,
                   .after = after,
                   .left = times,
                   .until_us = for_us > 0 ? now_us() + for_us : 0,
                   .delay_us = delay_us,
                   .spread_us = spread_us};
    int result = -1;
    strncpy(rule.symbol, symbol, sizeof rule.symbol - 1);
    state_lock(state);
    for (uint32_t i = 0; i < MAX_RULES && result < 0; i++) {
        if (state->rule[i].symbol[0] != 0) continue;
        state->rule[i] = rule;
        result = (int)i;
    }
    state_unlock(state);
    return result;
}

EXPORT void mock_clear_rules(state_t *state) {
    state_lock(state);
    memset(state->rule, 0, sizeof state->rule);
    state_unlock(state);
}

/* How busy it is from now on, in percent, as the performance counters see it; ``id`` NO_ID: the whole GPU. */
EXPORT nvmlReturn_t mock_work(state_t *state, uint32_t gpu, uint32_t id, uint32_t percent) {
    state_lock(state);
    instance_t *instance = id == NO_ID ? NULL : instance_with_id(state, gpu, id);
    bool there = id == NO_ID || instance != NULL;
    if (there) work_set(instance ? &instance->work : &state->gpu[gpu].work, percent);
    state_unlock(state);
    return there ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* Buffers for samples of the counters that nobody has given back. */
EXPORT int32_t mock_samples(const state_t *state) { return state->samples; }

/* A monitor opens (1) or closes (-1) handles of an instance. */
EXPORT nvmlReturn_t mock_leak(state_t *state, uint32_t gpu, uint32_t id, int32_t handles) {
    state_lock(state);
    instance_t *instance = instance_with_id(state, gpu, id);
    if (instance != NULL) instance->leaked += (uint32_t)handles;
    state_unlock(state);
    return instance == NULL ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

/* Another tool on the machine makes an instance, by default with its compute instance. */
EXPORT nvmlReturn_t mock_outside_create(state_t *state, uint32_t index, uint32_t profile_id, uint32_t start, uint32_t width) {
    gpu_t *gpu = &state->gpu[index];
    const profile_t *profile = profile_with_id(gpu, profile_id);
    instance_t *instance;
    compute_t *compute;
    state_lock(state);
    nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
    if (profile != NULL && start_is_legal(profile, start) && gpu->mig_current)
        result = instance_create(state, index, profile, start, &instance);
    for (uint32_t i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && result == NVML_SUCCESS && width > 0; i++) {
        if (compute_width(profile, i) != (width == NO_ID ? profile->slices : width)) continue;
        result = compute_create(state, index, instance, i, -1, &compute);
        break;
    }
    state_unlock(state);
    return result;
}

EXPORT nvmlReturn_t mock_outside_destroy(state_t *state, uint32_t gpu, uint32_t id) {
    state_lock(state);
    instance_t *instance = instance_with_id(state, gpu, id);
    nvmlReturn_t result = instance == NULL ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
    for (uint32_t i = 0; i < MAX_COMPUTES && result == NVML_SUCCESS; i++)
        if (instance->compute[i].live) result = compute_destroy(state, gpu, instance, &instance->compute[i]);
    if (result == NVML_SUCCESS) result = instance_destroy(state, gpu, instance);
    state_unlock(state);
    return result;
}

/* ``nvidia-smi --gpu-reset``: refused while anything runs there; makes the pending MIG mode current. */
EXPORT nvmlReturn_t mock_reset(state_t *state, uint32_t index) {
    gpu_t *gpu = &state->gpu[index];
    state_lock(state);
    nvmlReturn_t result = is_held(state, index, NO_ID, NO_ID) ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    if (result == NVML_SUCCESS) {
        gpu_clear(gpu);
        gpu->mig_current = gpu->mig_pending;
    }
    state_unlock(state);
    return result;
}

/* The driver goes, and with it every process and instance; where switching needs no reset, MIG mode too. */
EXPORT void mock_driver_unload(state_t *state) {
    state_lock(state);
    memset(state->process, 0, sizeof state->process);
    for (uint32_t i = 0; i < state->gpu_count; i++) {
        gpu_t *gpu = &state->gpu[i];
        gpu_clear(gpu);
        if (mig_is_resetless(gpu)) gpu->mig_pending = 0;
        gpu->mig_current = gpu->mig_pending;
    }
    state->loaded = 0;
    state_unlock(state);
}

EXPORT void mock_driver_load(state_t *state) {
    state_lock(state);
    state->epoch += !state->loaded;
    state->loaded = 1;
    state_unlock(state);
}

/* The caller dies with the state locked. */
EXPORT void mock_lock_and_die(state_t *state) {
    state_lock(state);
    _exit(9);
}

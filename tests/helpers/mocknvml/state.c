/* The mapping of the shared file, the session of this process, and handles. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t mutex;
    state_t *state;
    char path[4096], chosen[4096], caps[16];
    uint32_t references, epoch;
} session = {.mutex = PTHREAD_MUTEX_INITIALIZER};

state_t *state_map(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    struct stat about;
    state_t *state = MAP_FAILED;
    if (fstat(file, &about) == 0 && (size_t)about.st_size == sizeof(state_t))
        state = mmap(NULL, sizeof(state_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (state == MAP_FAILED) return NULL;
    if (state->magic == MOCK_MAGIC && state->size == sizeof(state_t)) return state;
    munmap(state, sizeof(state_t));
    return NULL;
}

void state_lock(state_t *state) {
    if (pthread_mutex_lock(&state->mutex) == EOWNERDEAD) pthread_mutex_consistent(&state->mutex);
}

void state_unlock(state_t *state) { pthread_mutex_unlock(&state->mutex); }

int64_t now_us(void) {
    struct timespec now; /* the same for all processes of a machine */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(int64_t duration) {
    struct timespec left = {.tv_sec = duration / 1000000, .tv_nsec = (duration % 1000000) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

void session_choose(const char *path, const char *caps) {
    pthread_mutex_lock(&session.mutex);
    strncpy(session.chosen, path, sizeof session.chosen - 1);
    strncpy(session.caps, caps, sizeof session.caps - 1);
    pthread_mutex_unlock(&session.mutex);
}

nvmlReturn_t session_open(void) {
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&session.mutex);
    const char *path = session.chosen[0] ? session.chosen : getenv("MOCK_NVML_STATE");
    /* Tests of one process take turns with files of their own. A mapping that was left stays: another thread may be in a
     * call that uses it. */
    if (path == NULL || strlen(path) >= sizeof session.path) {
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    } else if (session.state == NULL || strcmp(path, session.path) != 0) {
        state_t *found = state_map(path);
        if (found == NULL) {
            result = NVML_ERROR_DRIVER_NOT_LOADED;
        } else {
            session.state = found;
            session.references = 0; /* those of another machine are void */
            strcpy(session.path, path);
            session.epoch = found->epoch;
        }
    }
    if (result == NVML_SUCCESS && !session.state->loaded) result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (result == NVML_SUCCESS) {
        if (session.references == 0) session.epoch = session.state->epoch;
        session.references++;
    }
    pthread_mutex_unlock(&session.mutex);
    return result;
}

nvmlReturn_t session_close(void) {
    pthread_mutex_lock(&session.mutex);
    nvmlReturn_t result = session.references > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (result == NVML_SUCCESS) session.references--;
    pthread_mutex_unlock(&session.mutex);
    return result;
}

/* What the rules say of this call; counts it. */
static void consult(state_t *state, const char *symbol, int32_t gpu, int64_t *delay, nvmlReturn_t *before,
                    nvmlReturn_t *after) {
    int64_t now = now_us();
    for (uint32_t i = 0; i < MAX_RULES; i++) {
        rule_t *rule = &state->rule[i];
        if (rule->symbol[0] == 0 || (strcmp(rule->symbol, symbol) != 0 && strcmp(rule->symbol, "*") != 0)) continue;
        if (rule->gpu >= 0 && rule->gpu != gpu) continue;
        if (rule->left == 0 || (rule->until_us != 0 && now >= rule->until_us)) {
            rule->symbol[0] = 0;
            continue;
        }
        if (rule->left > 0) rule->left--;
        *delay += rule->delay_us + (rule->spread_us > 0 ? random() % rule->spread_us : 0);
        if (rule->code && rule->after && !*after) *after = rule->code;
        if (rule->code && !rule->after && !*before) *before = rule->code;
    }
}

static uint32_t part(const void *handle, unsigned int shift) { return (uint32_t)((uintptr_t)handle >> shift) & 0xff; }

nvmlReturn_t call_begin(call_t *call, const char *symbol, const void *handle) {
    pthread_mutex_lock(&session.mutex);
    state_t *state = session.state;
    uint32_t epoch = session.epoch;
    bool open = session.references > 0;
    pthread_mutex_unlock(&session.mutex);
    if (!open) return NVML_ERROR_UNINITIALIZED;

    int64_t delay = 0;
    nvmlReturn_t before = NVML_SUCCESS;
    *call = (call_t){.state = state};
    state_lock(state);
    consult(state, symbol, handle == NULL ? -1 : (int32_t)part(handle, 48), &delay, &before, &call->failure_after);
    if (delay > 0) {
        state_unlock(state); /* a slow call holds up nobody else */
        sleep_us(delay);
        state_lock(state);
    }
    if (!state->loaded) before = NVML_ERROR_DRIVER_NOT_LOADED;
    else if (state->epoch != epoch) before = NVML_ERROR_UNKNOWN; /* a session does not outlive its driver */
    if (before) state_unlock(state);
    return before;
}

nvmlReturn_t call_end(call_t *call, nvmlReturn_t result) {
    state_unlock(call->state);
    return result == NVML_SUCCESS ? call->failure_after : result;
}

nvmlReturn_t require(privilege_t level) {
    static const char *const names[] = {"none", "monitor", "config", "all"};
    const char *given = session.caps[0] ? session.caps : getenv("MOCK_NVML_CAPS");
    for (uint32_t i = 0; given != NULL && i < 4; i++)
        if (strcmp(given, names[i]) == 0) return i >= (uint32_t)level ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
    return NVML_SUCCESS;
}

/* kind | gpu | instance | compute | serial, from the top; the GPU's serial is the driver's epoch. */
void *handle_make(const state_t *state, handle_kind_t kind, const target_t *target) {
    const gpu_t *gpu = target->gpu;
    uint64_t instance = target->instance ? (uint64_t)(target->instance - gpu->instance) : 0;
    uint64_t compute = target->compute ? (uint64_t)(target->compute - target->instance->compute) : 0;
    uint64_t serial = target->compute ? target->compute->serial : target->instance ? target->instance->serial : state->epoch;
    uint64_t value = (uint64_t)kind << 56 | (uint64_t)target->index << 48 | instance << 40 | compute << 32 | serial;
    return (void *)(uintptr_t)value;
}

nvmlReturn_t handle_read(state_t *state, const void *handle, handle_kind_t kind, target_t *target) {
    uint32_t gpu = part(handle, 48), instance = part(handle, 40), compute = part(handle, 32);
    uint32_t serial = (uint32_t)((uintptr_t)handle & 0xffffffff);
    *target = (target_t){0};
    if (part(handle, 56) != (uint32_t)kind || gpu >= state->gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
    target->gpu = &state->gpu[gpu];
    target->index = gpu;
    if (target->gpu->lost) return NVML_ERROR_GPU_IS_LOST;
    if (kind == HANDLE_GPU) return serial == state->epoch ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    target->instance = &target->gpu->instance[instance % MAX_INSTANCES];
    if (!target->instance->live) return NVML_ERROR_INVALID_ARGUMENT;
    if (kind == HANDLE_INSTANCE) return serial == target->instance->serial ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    target->compute = &target->instance->compute[compute % MAX_COMPUTES];
    return target->compute->live && serial == target->compute->serial ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t device_read(state_t *state, const void *handle, target_t *target) {
    handle_kind_t kind = part(handle, 56) == HANDLE_MIG_DEVICE ? HANDLE_MIG_DEVICE : HANDLE_GPU;
    return handle_read(state, handle, kind, target);
}

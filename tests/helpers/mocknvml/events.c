/* Events: a ring in the shared state, and the sets of this process that wait for them. */
#include "state.h"

#include <time.h>

enum { MAX_SETS = 32 };

typedef struct {
    bool used;
    state_t *state;
    uint32_t epoch;
    uint64_t next;
    uint64_t types[MAX_GPUS], since[MAX_GPUS];
} event_set_t;

static event_set_t sets[MAX_SETS]; /* guarded by the state's mutex */

void event_post(state_t *state, uint32_t gpu, uint64_t type, uint64_t data, uint32_t instance, uint32_t compute) {
    uint64_t sequence = state->next_event++;
    state->event[sequence % MAX_EVENTS] = (event_t){
        .sequence = sequence, .type = type, .data = data, .gpu = gpu, .instance = instance, .compute = compute};
}

static event_set_t *set_of(const state_t *state, nvmlEventSet_t handle) {
    uintptr_t number = (uintptr_t)handle;
    if (number < 1 || number > MAX_SETS) return NULL;
    event_set_t *set = &sets[number - 1];
    return set->used && set->state == state && set->epoch == state->epoch ? set : NULL;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *handle) {
    BEGIN(NULL);
    REFUSE(handle == NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < MAX_SETS; i++) {
        /* One of an earlier session was lost with it. */
        if (sets[i].used && sets[i].state == call.state && sets[i].epoch == call.state->epoch) continue;
        sets[i] = (event_set_t){.used = true, .state = call.state, .epoch = call.state->epoch, .next = call.state->next_event};
        *handle = (nvmlEventSet_t)(uintptr_t)(i + 1);
        END(NVML_SUCCESS);
    }
    END(NVML_ERROR_MEMORY);
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle) {
    BEGIN(NULL);
    event_set_t *set = set_of(call.state, handle);
    REFUSE(set == NULL, NVML_ERROR_INVALID_ARGUMENT);
    set->used = false;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(types == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *types = NVML_EVENTS_SUPPORTED;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    REFUSE(target.instance != NULL, NVML_ERROR_NOT_SUPPORTED); /* of GPUs only, never of MIG devices */
    REFUSE(types & ~NVML_EVENTS_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
    event_set_t *set = set_of(call.state, handle);
    REFUSE(set == NULL, NVML_ERROR_INVALID_ARGUMENT);
    if (set->types[target.index] == 0) set->since[target.index] = call.state->next_event;
    set->types[target.index] |= types;
    END(NVML_SUCCESS);
}

static bool take(state_t *state, event_set_t *set, nvmlEventData_t *data) {
    if (state->next_event > MAX_EVENTS && set->next < state->next_event - MAX_EVENTS)
        set->next = state->next_event - MAX_EVENTS; /* those before are overwritten */
    for (; set->next < state->next_event; set->next++) {
        const event_t *event = &state->event[set->next % MAX_EVENTS];
        if (!(set->types[event->gpu] & event->type) || event->sequence < set->since[event->gpu]) continue;
        target_t target = {.gpu = &state->gpu[event->gpu], .index = event->gpu};
        *data = (nvmlEventData_t){.device = handle_make(state, HANDLE_GPU, &target),
                                  .eventType = event->type,
                                  .eventData = event->data,
                                  .gpuInstanceId = event->instance,
                                  .computeInstanceId = event->compute};
        set->next++;
        return true;
    }
    return false;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms) {
    BEGIN(NULL);
    REFUSE(data == NULL, NVML_ERROR_INVALID_ARGUMENT);
    int64_t deadline = now_us() + (int64_t)timeout_ms * 1000;
    for (;;) {
        event_set_t *set = set_of(call.state, handle);
        REFUSE(set == NULL, NVML_ERROR_INVALID_ARGUMENT);
        if (take(call.state, set, data)) END(NVML_SUCCESS);
        REFUSE(now_us() >= deadline, NVML_ERROR_TIMEOUT);
        state_unlock(call.state);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        state_lock(call.state);
    }
}

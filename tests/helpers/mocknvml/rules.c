/* What a GPU allows: placements, caps, order, and who must go first. Changes the state; takes no lock. */
#include "state.h"

#include <stdio.h>
#include <string.h>

const board_t *board_of(const gpu_t *gpu) { return gpu->board < 0 ? NULL : &BOARDS[gpu->board]; }

const profile_t *profile_of(const gpu_t *gpu, const instance_t *instance) {
    return &board_of(gpu)->profiles[instance->profile];
}

bool mig_is_resetless(const gpu_t *gpu) { return gpu->board >= 0 && !board_of(gpu)->mode_needs_reset; }

const profile_t *profile_with_id(const gpu_t *gpu, uint32_t id) {
    const board_t *board = board_of(gpu);
    for (uint32_t i = 0; board != NULL && i < board->profile_count; i++)
        if (board->profiles[i].id == id) return &board->profiles[i];
    return NULL;
}

instance_t *instance_with_id(state_t *state, uint32_t gpu, uint32_t id) {
    for (uint32_t i = 0; i < MAX_INSTANCES; i++)
        if (state->gpu[gpu].instance[i].live && state->gpu[gpu].instance[i].id == id) return &state->gpu[gpu].instance[i];
    return NULL;
}

bool start_is_legal(const profile_t *profile, uint32_t start) {
    for (uint32_t i = 0; i < profile->start_count; i++)
        if (profile->starts[i] == start) return true;
    return false;
}

static bool tolerates(const profile_t *one, const profile_t *other) {
    return one->only_beside == 0 || (one->only_beside >> other->variant & 1);
}

bool can_place(const gpu_t *gpu, const profile_t *profile, uint32_t start) {
    uint32_t same = 1, ofas = profile->ofas;
    for (uint32_t i = 0; i < MAX_INSTANCES; i++) {
        const instance_t *other = &gpu->instance[i];
        if (!other->live) continue;
        const profile_t *its = profile_of(gpu, other);
        if (start < other->start + other->size && other->start < start + profile->size) return false;
        if (!tolerates(profile, its) || !tolerates(its, profile)) return false;
        same += its == profile;
        ofas += its->ofas;
    }
    uint32_t all = board_of(gpu)->ofas;
    return same <= profile->max_instances && (all == 0 || ofas <= all);
}

/* A profile's own legal starts never overlap, so that taking each that is free finds the most. */
uint32_t remaining_capacity(const gpu_t *gpu, const profile_t *profile) {
    uint32_t free = 0, there = 0;
    for (uint32_t i = 0; i < profile->start_count; i++) free += can_place(gpu, profile, profile->starts[i]);
    for (uint32_t i = 0; i < MAX_INSTANCES; i++)
        there += gpu->instance[i].live && profile_of(gpu, &gpu->instance[i]) == profile;
    uint32_t allowed = profile->max_instances > there ? profile->max_instances - there : 0;
    return free < allowed ? free : allowed;
}

/* Ids are nodes of a tree: the whole 0, halves 1 and 2, quarters from 3, eighths from 7. Only halves are not in the order
 * of their places: the first that is made gets 1. */
static uint32_t instance_id(const gpu_t *gpu, const profile_t *profile, uint32_t start) {
    uint32_t parts = board_of(gpu)->units / profile->size;
    if (parts != 2) return parts - 1 + start / profile->size;
    for (uint32_t i = 0; i < MAX_INSTANCES; i++)
        if (gpu->instance[i].live && gpu->instance[i].id == 1) return 2;
    return 1;
}

nvmlReturn_t instance_create(state_t *state, uint32_t index, const profile_t *profile, uint32_t start, instance_t **made) {
    gpu_t *gpu = &state->gpu[index];
    if (!can_place(gpu, profile, start)) return NVML_ERROR_INSUFFICIENT_RESOURCES;
    for (uint32_t i = 0; i < MAX_INSTANCES; i++) {
        instance_t *slot = &gpu->instance[i];
        if (slot->live) continue;
        *slot = (instance_t){.live = 1,
                             .id = instance_id(gpu, profile, start),
                             .profile = (uint32_t)(profile - board_of(gpu)->profiles),
                             .start = start,
                             .size = profile->size,
                             .serial = ++state->serial};
        *made = slot;
        event_post(state, index, NVML_EVENT_MIG_CONFIG_CHANGE, 0, slot->id, NO_ID);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t instance_destroy(state_t *state, uint32_t index, instance_t *instance) {
    for (uint32_t i = 0; i < MAX_COMPUTES; i++)
        if (instance->compute[i].live) return NVML_ERROR_IN_USE;
    if (instance->leaked || is_held(state, index, instance->id, NO_ID)) return NVML_ERROR_IN_USE;
    instance->live = 0;
    event_post(state, index, NVML_EVENT_MIG_CONFIG_CHANGE, 0, instance->id, NO_ID);
    return NVML_SUCCESS;
}

/* 0 where the profile does not exist in such an instance. There is no third of four slices. */
uint32_t compute_width(const profile_t *profile, uint32_t compute_profile) {
    static const uint32_t widths[] = {1, 2, 3, 4, 7};
    if (compute_profile == NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1)
        return profile->slices == 1 && profile->variant == MEDIA ? 1 : 0;
    if (compute_profile >= sizeof widths / sizeof *widths) return 0;
    uint32_t width = widths[compute_profile];
    return width > profile->slices || (width == 3 && profile->slices == 4) ? 0 : width;
}

static bool slices_are_free(const instance_t *instance, uint32_t start, uint32_t width) {
    for (uint32_t i = 0; i < MAX_COMPUTES; i++) {
        const compute_t *other = &instance->compute[i];
        if (other->live && start < other->start + other->size && other->start < start + width) return false;
    }
    return true;
}

uint32_t compute_capacity(const gpu_t *gpu, const instance_t *instance, uint32_t compute_profile) {
    const profile_t *profile = profile_of(gpu, instance);
    uint32_t width = compute_width(profile, compute_profile), found = 0;
    for (uint32_t start = 0; width > 0 && start + width <= profile->slices; start += width)
        found += slices_are_free(instance, start, width);
    return found;
}

static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* The same for the same history, another for every making. */
static void mig_uuid(char *text, size_t size, const gpu_t *gpu, const instance_t *instance, const compute_t *compute) {
    uint64_t seed = UINT64_C(0xcbf29ce484222325);
    for (const char *at = gpu->uuid; *at; at++) seed = (seed ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    seed = mixed(seed + ((uint64_t)instance->id << 40 | (uint64_t)compute->id << 32 | compute->serial));
    uint64_t rest = mixed(seed + 1);
    snprintf(text, size, "MIG-%08x-%04x-5%03x-%04x-%012llx", (unsigned)(seed >> 32), (unsigned)(seed >> 16) & 0xffff,
             (unsigned)seed & 0xfff, 0x8000 | ((unsigned)(rest >> 48) & 0x3fff),
             (unsigned long long)(rest & UINT64_C(0xffffffffffff)));
}

nvmlReturn_t compute_create(state_t *state, uint32_t index, instance_t *instance, uint32_t compute_profile, int64_t start,
                            compute_t **made) {
    gpu_t *gpu = &state->gpu[index];
    const profile_t *profile = profile_of(gpu, instance);
    uint32_t width = compute_width(profile, compute_profile);
    if (width == 0) return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t at = 0; start < 0 && at + width <= profile->slices; at += width)
        if (slices_are_free(instance, at, width)) start = at;
    if (start < 0) return NVML_ERROR_INSUFFICIENT_RESOURCES;
    if (start % width != 0 || start + width > profile->slices) return NVML_ERROR_INVALID_ARGUMENT;
    if (!slices_are_free(instance, (uint32_t)start, width)) return NVML_ERROR_INSUFFICIENT_RESOURCES;
    for (uint32_t i = 0; i < MAX_COMPUTES; i++) {
        compute_t *slot = &instance->compute[i];
        if (slot->live) continue;
        *slot = (compute_t){.live = 1, .id = i, .profile = compute_profile, .start = (uint32_t)start, .size = width};
        slot->serial = ++state->serial;
        mig_uuid(slot->uuid, sizeof slot->uuid, gpu, instance, slot);
        *made = slot;
        event_post(state, index, NVML_EVENT_MIG_CONFIG_CHANGE, 0, instance->id, slot->id);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t compute_destroy(state_t *state, uint32_t index, instance_t *instance, compute_t *compute) {
    if (instance->leaked || is_held(state, index, instance->id, compute->id)) return NVML_ERROR_IN_USE;
    compute->live = 0;
    event_post(state, index, NVML_EVENT_MIG_CONFIG_CHANGE, 0, instance->id, compute->id);
    return NVML_SUCCESS;
}

/* A reset: nothing of MIG's layout outlives it, and what counts since the last one begins anew. */
void gpu_clear(gpu_t *gpu) {
    memset(gpu->instance, 0, sizeof gpu->instance);
    gpu->ecc_corrected = gpu->ecc_uncorrected = 0;
    gpu->remap_uncorrectable += gpu->remap_pending && !gpu->remap_failed;
    gpu->remap_pending = gpu->recovery_action = gpu->compute_mode = gpu->lost = 0;
}

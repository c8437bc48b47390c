/* MIG mode and GPU instances. */
#include "state.h"

#include <stdio.h>
#include <string.h>

/* A GPU whose MIG mode is on. */
static nvmlReturn_t mig_gpu(state_t *state, nvmlDevice_t device, target_t *target) {
    nvmlReturn_t result = handle_read(state, device, HANDLE_GPU, target);
    return result ? result : target->gpu->mig_current ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static bool has_instances(const gpu_t *gpu) {
    for (uint32_t i = 0; i < MAX_INSTANCES; i++)
        if (gpu->instance[i].live) return true;
    return false;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(current == NULL || pending == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(target.gpu->board < 0, NVML_ERROR_NOT_SUPPORTED);
    *current = target.gpu->mig_current;
    *pending = target.gpu->mig_pending;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    TRY(require(MAY_ALL));
    REFUSE(mode > 1 || activation == NULL, NVML_ERROR_INVALID_ARGUMENT);
    gpu_t *gpu = target.gpu;
    REFUSE(gpu->board < 0, NVML_ERROR_NOT_SUPPORTED);
    gpu->mig_pending = mode;
    *activation = NVML_SUCCESS;
    if (gpu->mig_current != mode) {
        if (has_instances(gpu) || is_held(call.state, target.index, NO_ID, NO_ID)) *activation = NVML_ERROR_IN_USE;
        else if (!mig_is_resetless(gpu)) *activation = NVML_ERROR_RESET_REQUIRED;
        else {
            gpu->mig_current = mode;
            gpu->compute_mode = NVML_COMPUTEMODE_DEFAULT;
            event_post(call.state, target.index, NVML_EVENT_MIG_CONFIG_CHANGE, 0, NO_ID, NO_ID);
        }
    }
    END(NVML_SUCCESS);
}

static nvmlReturn_t profile_by_number(const gpu_t *gpu, unsigned int number, const profile_t **profile) {
    if (number >= NVML_GPU_INSTANCE_PROFILE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    const board_t *board = board_of(gpu);
    for (uint32_t i = 0; board != NULL && i < board->profile_count; i++) {
        *profile = &board->profiles[i];
        if ((*profile)->number == number) return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

/* The unversioned call answers with MIG mode off, too. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number,
                                                        nvmlGpuInstanceProfileInfo_t *info) {
    BEGIN(device);
    target_t target;
    const profile_t *p = NULL;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    TRY(profile_by_number(target.gpu, number, &p));
    *info = (nvmlGpuInstanceProfileInfo_t){.id = p->id,
                                           .sliceCount = p->slices,
                                           .instanceCount = p->max_instances,
                                           .multiprocessorCount = p->sms,
                                           .copyEngineCount = p->copy_engines,
                                           .decoderCount = p->decoders,
                                           .jpegCount = p->jpegs,
                                           .ofaCount = p->ofas,
                                           .memorySizeMB = p->memory_mib};
    END(NVML_SUCCESS);
}

static nvmlReturn_t fill(const profile_t *p, nvmlGpuInstanceProfileInfo_v2_t *info) {
    if (info->version != VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = info->version,
                                              .id = p->id,
                                              .sliceCount = p->slices,
                                              .instanceCount = p->max_instances,
                                              .multiprocessorCount = p->sms,
                                              .copyEngineCount = p->copy_engines,
                                              .decoderCount = p->decoders,
                                              .jpegCount = p->jpegs,
                                              .ofaCount = p->ofas,
                                              .memorySizeMB = p->memory_mib};
    snprintf(info->name, sizeof info->name, "MIG %s", p->name);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number,
                                                         nvmlGpuInstanceProfileInfo_v2_t *info) {
    BEGIN(device);
    target_t target;
    const profile_t *profile = NULL;
    TRY(mig_gpu(call.state, device, &target));
    REFUSE(info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    TRY(profile_by_number(target.gpu, number, &profile));
    END(fill(profile, info));
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                             nvmlGpuInstanceProfileInfo_v2_t *info) {
    BEGIN(device);
    target_t target;
    TRY(mig_gpu(call.state, device, &target));
    const profile_t *profile = profile_with_id(target.gpu, id);
    REFUSE(info == NULL || profile == NULL, NVML_ERROR_INVALID_ARGUMENT);
    END(fill(profile, info));
}

/* What may be anywhere, whatever is there; answered with MIG mode off, too. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                                  nvmlPlacement_t *placements, unsigned int *count) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    TRY(require(MAY_MONITOR));
    REFUSE(count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(target.gpu->board < 0, NVML_ERROR_NOT_SUPPORTED);
    const profile_t *profile = profile_with_id(target.gpu, id);
    REFUSE(profile == NULL, NVML_ERROR_INVALID_ARGUMENT);
    if (placements != NULL) {
        REFUSE(*count < profile->start_count, NVML_ERROR_INSUFFICIENT_SIZE);
        for (uint32_t i = 0; i < profile->start_count; i++)
            placements[i] = (nvmlPlacement_t){.start = profile->starts[i], .size = profile->size};
    }
    *count = profile->start_count;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count) {
    BEGIN(device);
    target_t target;
    TRY(mig_gpu(call.state, device, &target));
    TRY(require(MAY_MONITOR));
    const profile_t *profile = profile_with_id(target.gpu, id);
    REFUSE(profile == NULL || count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = remaining_capacity(target.gpu, profile);
    END(NVML_SUCCESS);
}

/* ``placement`` NULL: where the driver itself would put it. */
static nvmlReturn_t create(state_t *state, nvmlDevice_t device, unsigned int id, const nvmlPlacement_t *placement,
                           nvmlGpuInstance_t *made) {
    target_t target;
    nvmlReturn_t result = mig_gpu(state, device, &target);
    if (result == NVML_SUCCESS) result = require(MAY_CONFIGURE);
    if (result) return result;
    const profile_t *profile = profile_with_id(target.gpu, id);
    if (profile == NULL || made == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t start = NO_ID;
    if (placement != NULL) {
        if (placement->size != profile->size || !start_is_legal(profile, placement->start))
            return NVML_ERROR_INVALID_ARGUMENT;
        start = placement->start;
    } else {
        for (uint32_t i = 0; start == NO_ID && i < profile->start_count; i++)
            if (can_place(target.gpu, profile, profile->prefer[i])) start = profile->prefer[i];
        if (start == NO_ID) return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    result = instance_create(state, target.index, profile, start, &target.instance);
    if (result == NVML_SUCCESS) *made = handle_make(state, HANDLE_INSTANCE, &target);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *made) {
    BEGIN(device);
    END(create(call.state, device, id, NULL, made));
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                             const nvmlPlacement_t *placement, nvmlGpuInstance_t *made) {
    BEGIN(device);
    REFUSE(placement == NULL, NVML_ERROR_INVALID_ARGUMENT);
    END(create(call.state, device, id, placement, made));
}

EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    BEGIN(instance);
    target_t target;
    TRY(handle_read(call.state, instance, HANDLE_INSTANCE, &target));
    TRY(require(MAY_CONFIGURE));
    END(instance_destroy(call.state, target.index, target.instance));
}

/* ``count`` is written only: the caller's array must have room for the profile's most instances. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *found,
                                              unsigned int *count) {
    BEGIN(device);
    target_t target;
    TRY(mig_gpu(call.state, device, &target));
    TRY(require(MAY_MONITOR));
    const profile_t *profile = profile_with_id(target.gpu, id);
    REFUSE(profile == NULL || found == NULL || count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    for (uint32_t i = 0; i < MAX_INSTANCES; i++) {
        target.instance = &target.gpu->instance[i];
        if (!target.instance->live || profile_of(target.gpu, target.instance) != profile) continue;
        found[(*count)++] = handle_make(call.state, HANDLE_INSTANCE, &target);
    }
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *found) {
    BEGIN(device);
    target_t target;
    TRY(mig_gpu(call.state, device, &target));
    TRY(require(MAY_MONITOR));
    REFUSE(found == NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < MAX_INSTANCES; i++) {
        target.instance = &target.gpu->instance[i];
        if (!target.instance->live || target.instance->id != id) continue;
        *found = handle_make(call.state, HANDLE_INSTANCE, &target);
        END(NVML_SUCCESS);
    }
    END(NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info) {
    BEGIN(instance);
    target_t target;
    TRY(handle_read(call.state, instance, HANDLE_INSTANCE, &target));
    REFUSE(info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    target_t parent = {.gpu = target.gpu, .index = target.index};
    *info = (nvmlGpuInstanceInfo_t){.device = handle_make(call.state, HANDLE_GPU, &parent),
                                    .id = target.instance->id,
                                    .profileId = profile_of(target.gpu, target.instance)->id,
                                    .placement = {.start = target.instance->start, .size = target.instance->size}};
    END(NVML_SUCCESS);
}

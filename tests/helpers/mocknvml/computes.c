/* Compute instances, and the MIG devices that they are to everyone else. */
#include "state.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t width_of(state_t *state, nvmlGpuInstance_t instance, unsigned int number, target_t *target,
                             uint32_t *width) {
    nvmlReturn_t result = handle_read(state, instance, HANDLE_INSTANCE, target);
    if (result) return result;
    if (number >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    *width = compute_width(profile_of(target->gpu, target->instance), number);
    return *width == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static void name_of(char *text, size_t size, const profile_t *profile, uint32_t width) {
    if (width == profile->slices) snprintf(text, size, "MIG %s", profile->name);
    else snprintf(text, size, "MIG %uc.%s", width, profile->name);
}

/* Of compute instances the profile's number and its id are the same. */
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int number,
                                                                  unsigned int engines,
                                                                  nvmlComputeInstanceProfileInfo_v2_t *info) {
    BEGIN(instance);
    target_t target;
    uint32_t width = 0;
    TRY(width_of(call.state, instance, number, &target, &width));
    REFUSE(engines != 0 || info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(info->version != VERSIONED(nvmlComputeInstanceProfileInfo_v2_t, 2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const profile_t *p = profile_of(target.gpu, target.instance);
    *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = info->version,
                                                  .id = number,
                                                  .sliceCount = width,
                                                  .instanceCount = p->slices / width,
                                                  .multiprocessorCount = p->sms * width / p->slices,
                                                  .sharedCopyEngineCount = p->copy_engines,
                                                  .sharedDecoderCount = p->decoders,
                                                  .sharedJpegCount = p->jpegs,
                                                  .sharedOfaCount = p->ofas};
    name_of(info->name, sizeof info->name, p, width);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int number,
                                                                 unsigned int engines,
                                                                 nvmlComputeInstanceProfileInfo_t *info) {
    nvmlComputeInstanceProfileInfo_v2_t full = {.version = VERSIONED(nvmlComputeInstanceProfileInfo_v2_t, 2)};
    if (info == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, number, engines, &full);
    /* The second version is the first with its tag in front. */
    if (result == NVML_SUCCESS) memcpy(info, (const char *)&full + offsetof(nvmlComputeInstanceProfileInfo_v2_t, id), sizeof *info);
    return result;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int id,
                                                                       unsigned int *count) {
    BEGIN(instance);
    target_t target;
    uint32_t width = 0;
    TRY(width_of(call.state, instance, id, &target, &width));
    TRY(require(MAY_MONITOR));
    REFUSE(count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = compute_capacity(target.gpu, target.instance, id);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int id,
                                                                        nvmlPlacement_t *placements,
                                                                        unsigned int *count) {
    BEGIN(instance);
    target_t target;
    uint32_t width = 0;
    TRY(width_of(call.state, instance, id, &target, &width));
    TRY(require(MAY_MONITOR));
    REFUSE(count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    uint32_t places = profile_of(target.gpu, target.instance)->slices / width;
    REFUSE(placements != NULL && *count < places, NVML_ERROR_INSUFFICIENT_SIZE);
    for (uint32_t i = 0; placements != NULL && i < places; i++)
        placements[i] = (nvmlPlacement_t){.start = i * width, .size = width};
    *count = places;
    END(NVML_SUCCESS);
}

static nvmlReturn_t create(state_t *state, nvmlGpuInstance_t instance, unsigned int id, const nvmlPlacement_t *placement,
                           nvmlComputeInstance_t *made) {
    target_t target;
    uint32_t width = 0;
    nvmlReturn_t result = width_of(state, instance, id, &target, &width);
    if (result == NVML_SUCCESS) result = require(MAY_CONFIGURE);
    if (result == NVML_SUCCESS && (made == NULL || (placement != NULL && placement->size != width)))
        result = NVML_ERROR_INVALID_ARGUMENT;
    int64_t start = placement == NULL ? -1 : (int64_t)placement->start;
    if (result == NVML_SUCCESS)
        result = compute_create(state, target.index, target.instance, id, start, &target.compute);
    if (result == NVML_SUCCESS) *made = handle_make(state, HANDLE_COMPUTE, &target);
    return result;
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id,
                                                         nvmlComputeInstance_t *made) {
    BEGIN(instance);
    END(create(call.state, instance, id, NULL, made));
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
                                                                      const nvmlPlacement_t *placement,
                                                                      nvmlComputeInstance_t *made) {
    BEGIN(instance);
    REFUSE(placement == NULL, NVML_ERROR_INVALID_ARGUMENT);
    END(create(call.state, instance, id, placement, made));
}

EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute) {
    BEGIN(compute);
    target_t target;
    TRY(handle_read(call.state, compute, HANDLE_COMPUTE, &target));
    TRY(require(MAY_CONFIGURE));
    END(compute_destroy(call.state, target.index, target.instance, target.compute));
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id,
                                                       nvmlComputeInstance_t *found, unsigned int *count) {
    BEGIN(instance);
    target_t target;
    uint32_t width = 0;
    TRY(width_of(call.state, instance, id, &target, &width));
    TRY(require(MAY_MONITOR));
    REFUSE(found == NULL || count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    for (uint32_t i = 0; i < MAX_COMPUTES; i++) {
        target.compute = &target.instance->compute[i];
        if (target.compute->live && target.compute->profile == id)
            found[(*count)++] = handle_make(call.state, HANDLE_COMPUTE, &target);
    }
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                          nvmlComputeInstance_t *found) {
    BEGIN(instance);
    target_t target;
    TRY(handle_read(call.state, instance, HANDLE_INSTANCE, &target));
    TRY(require(MAY_MONITOR));
    REFUSE(found == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(id >= MAX_COMPUTES || !target.instance->compute[id].live, NVML_ERROR_NOT_FOUND);
    target.compute = &target.instance->compute[id];
    *found = handle_make(call.state, HANDLE_COMPUTE, &target);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info) {
    BEGIN(compute);
    target_t target;
    TRY(handle_read(call.state, compute, HANDLE_COMPUTE, &target));
    REFUSE(info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    target_t parent = {.gpu = target.gpu, .instance = target.instance, .index = target.index};
    *info = (nvmlComputeInstanceInfo_t){.device = handle_make(call.state, HANDLE_MIG_DEVICE, &target),
                                        .gpuInstance = handle_make(call.state, HANDLE_INSTANCE, &parent),
                                        .id = target.compute->id,
                                        .profileId = target.compute->profile,
                                        .placement = {.start = target.compute->start, .size = target.compute->size}};
    END(NVML_SUCCESS);
}

/* --- MIG devices ----------------------------------------------------------------------------------------------- */

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *answer) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    REFUSE(answer == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *answer = target.compute != NULL;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_MIG_DEVICE, &target));
    REFUSE(id == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *id = target.instance->id;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_MIG_DEVICE, &target));
    REFUSE(id == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *id = target.compute->id;
    END(NVML_SUCCESS);
}

static uint32_t most_devices(const gpu_t *gpu) {
    uint32_t most = 0;
    const board_t *board = board_of(gpu);
    for (uint32_t i = 0; board != NULL && i < board->profile_count; i++)
        if (board->profiles[i].max_instances > most) most = board->profiles[i].max_instances;
    return most;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = most_devices(target.gpu);
    END(NVML_SUCCESS);
}

/* An index belongs to a place, so that there are holes: NOT_FOUND is one, not the end. */
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *found) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(found == NULL || index >= most_devices(target.gpu), NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(!target.gpu->mig_current, NVML_ERROR_NOT_FOUND);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < MAX_INSTANCES * MAX_COMPUTES; i++) {
        target.instance = &target.gpu->instance[i / MAX_COMPUTES];
        target.compute = &target.instance->compute[i % MAX_COMPUTES];
        bool first = i % MAX_COMPUTES == 0;
        bool live = target.instance->live && target.compute->live;
        if (live && seen == index) {
            *found = handle_make(call.state, HANDLE_MIG_DEVICE, &target);
            END(NVML_SUCCESS);
        }
        seen += live || first;
    }
    END(NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_MIG_DEVICE, &target));
    REFUSE(parent == NULL, NVML_ERROR_INVALID_ARGUMENT);
    target_t gpu = {.gpu = target.gpu, .index = target.index};
    *parent = handle_make(call.state, HANDLE_GPU, &gpu);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    REFUSE(attributes == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(target.compute == NULL, NVML_ERROR_NOT_SUPPORTED);
    const profile_t *p = profile_of(target.gpu, target.instance);
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = p->sms * target.compute->size / p->slices,
                                           .sharedCopyEngineCount = p->copy_engines,
                                           .sharedDecoderCount = p->decoders,
                                           .sharedJpegCount = p->jpegs,
                                           .sharedOfaCount = p->ofas,
                                           .gpuInstanceSliceCount = p->slices,
                                           .computeInstanceSliceCount = target.compute->size,
                                           .memorySizeMB = p->memory_mib};
    END(NVML_SUCCESS);
}

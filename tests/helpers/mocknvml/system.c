/* The library itself, and how devices are found. */
#include "state.h"

#include <stdio.h>
#include <string.h>

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return session_open();
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return session_open(); }

EXPORT nvmlReturn_t nvmlShutdown(void) { return session_close(); }

EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
        case NVML_SUCCESS: return "Success";
        case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
        case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
        case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
        case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
        case NVML_ERROR_NOT_FOUND: return "Not Found";
        case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
        case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case NVML_ERROR_TIMEOUT: return "Timeout";
        case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
        case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
        case NVML_ERROR_IN_USE: return "In use by another client";
        case NVML_ERROR_MEMORY: return "Insufficient Memory";
        case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
        case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
        default: return "Unknown Error";
    }
}

static nvmlReturn_t copied(char *to, unsigned int length, const char *from) {
    if (to == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(from) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, from);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    BEGIN(NULL);
    END(copied(version, length, "590.48.01"));
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    BEGIN(NULL);
    END(copied(version, length, "13.590.48.01"));
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    BEGIN(NULL);
    REFUSE(version == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *version = 13010;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    BEGIN(NULL);
    REFUSE(count == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *count = call.state->gpu_count;
    END(NVML_SUCCESS);
}

static nvmlReturn_t opened(state_t *state, uint32_t index, nvmlDevice_t *device) {
    target_t target = {.gpu = &state->gpu[index], .index = index};
    if (device == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (target.gpu->lost) return NVML_ERROR_GPU_IS_LOST;
    *device = handle_make(state, HANDLE_GPU, &target);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    BEGIN(NULL);
    REFUSE(index >= call.state->gpu_count, NVML_ERROR_INVALID_ARGUMENT);
    END(opened(call.state, index, device));
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    BEGIN(NULL);
    REFUSE(uuid == NULL || device == NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < call.state->gpu_count; i++) {
        gpu_t *gpu = &call.state->gpu[i];
        if (strcmp(gpu->uuid, uuid) == 0) END(opened(call.state, i, device));
        for (uint32_t j = 0; j < MAX_INSTANCES * MAX_COMPUTES; j++) {
            instance_t *instance = &gpu->instance[j / MAX_COMPUTES];
            compute_t *compute = &instance->compute[j % MAX_COMPUTES];
            if (!instance->live || !compute->live || strcmp(compute->uuid, uuid) != 0) continue;
            REFUSE(gpu->lost, NVML_ERROR_GPU_IS_LOST);
            target_t target = {.gpu = gpu, .instance = instance, .compute = compute, .index = i};
            *device = handle_make(call.state, HANDLE_MIG_DEVICE, &target);
            END(NVML_SUCCESS);
        }
    }
    END(NVML_ERROR_NOT_FOUND);
}

static void bus_id(char *text, size_t size, uint32_t index, unsigned int domain_digits) {
    snprintf(text, size, "%0*X:%02X:00.0", (int)domain_digits, 0U, 0x10U + index);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, nvmlDevice_t *device) {
    BEGIN(NULL);
    REFUSE(wanted == NULL, NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < call.state->gpu_count; i++) {
        char full[32], legacy[32];
        bus_id(full, sizeof full, i, 8);
        bus_id(legacy, sizeof legacy, i, 4);
        if (strcmp(wanted, full) == 0 || strcmp(wanted, legacy) == 0) END(opened(call.state, i, device));
    }
    END(NVML_ERROR_NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(info == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlPciInfo_t){.bus = 0x10 + target.index, .pciDeviceId = target.gpu->pci_device << 16 | 0x10de};
    bus_id(info->busIdLegacy, sizeof info->busIdLegacy, target.index, 4);
    bus_id(info->busId, sizeof info->busId, target.index, 8);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    if (target.instance == NULL) END(copied(name, length, target.gpu->name));
    char text[256];
    snprintf(text, sizeof text, "%s MIG %s", target.gpu->name, profile_of(target.gpu, target.instance)->name);
    END(copied(name, length, text));
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    END(copied(uuid, length, target.compute ? target.compute->uuid : target.gpu->uuid));
}

static nvmlReturn_t number_of(call_t *call, nvmlDevice_t device, unsigned int *number, bool minor) {
    target_t target;
    nvmlReturn_t result = handle_read(call->state, device, HANDLE_GPU, &target);
    if (result == NVML_SUCCESS && number == NULL) result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) *number = minor ? target.gpu->minor : target.index;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    BEGIN(device);
    END(number_of(&call, device, index, false));
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    BEGIN(device);
    END(number_of(&call, device, minor, true));
}

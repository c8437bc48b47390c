/* What a device reports of itself: memory, use, health, compute mode. */
#include "state.h"

static nvmlReturn_t gpu_read(state_t *state, nvmlDevice_t device, const void *out, gpu_t **gpu) {
    target_t target;
    nvmlReturn_t result = handle_read(state, device, HANDLE_GPU, &target);
    *gpu = target.gpu;
    return result ? result : out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* Of a MIG device its instance's, which the place decides a little: an upper half has some more than a lower. */
static nvmlReturn_t memory_of(state_t *state, nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    target_t target;
    nvmlReturn_t result = device_read(state, device, &target);
    if (result) return result;
    const gpu_t *gpu = target.gpu;
    if (target.instance != NULL) {
        const instance_t *instance = target.instance;
        bool upper_half = instance->start > 0 && 2 * instance->size == board_of(gpu)->units;
        memory->reserved = RESERVED_OF_INSTANCE;
        memory->total = (profile_of(gpu, instance)->memory_mib + (upper_half ? 128 : 0)) * MIB + RESERVED_OF_INSTANCE;
        memory->used = bytes_held(state, target.index, instance->id);
    } else {
        memory->total = gpu->memory + gpu->reserved;
        memory->reserved = gpu->reserved;
        for (uint32_t i = 0; i < MAX_INSTANCES; i++) memory->reserved += gpu->instance[i].live * RESERVED_OF_INSTANCE;
        memory->used = bytes_held(state, target.index, NO_ID);
    }
    uint64_t taken = memory->used + memory->reserved;
    memory->free = memory->total > taken ? memory->total - taken : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    BEGIN(device);
    REFUSE(memory == NULL, NVML_ERROR_INVALID_ARGUMENT);
    nvmlMemory_v2_t full = {0};
    TRY(memory_of(call.state, device, &full));
    /* The first version counts the reserve as used. */
    *memory = (nvmlMemory_t){.total = full.total, .free = full.free, .used = full.used + full.reserved};
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    BEGIN(device);
    REFUSE(memory == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(memory->version != VERSIONED(nvmlMemory_v2_t, 2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    END(memory_of(call.state, device, memory));
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *use) {
    BEGIN(device);
    target_t target;
    TRY(device_read(call.state, device, &target));
    REFUSE(use == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(target.gpu->mig_current, NVML_ERROR_NOT_SUPPORTED);
    *use = (nvmlUtilization_t){.gpu = target.gpu->utilisation, .memory = target.gpu->memory_utilisation};
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, architecture, &gpu));
    *architecture = gpu->architecture;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, milliwatts, &gpu));
    *milliwatts = gpu->power_mw;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *degrees) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, degrees, &gpu));
    REFUSE(sensor != 0, NVML_ERROR_INVALID_ARGUMENT);
    *degrees = gpu->temperature;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, temperature, &gpu));
    REFUSE(temperature->version != VERSIONED(nvmlTemperature_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    REFUSE(temperature->sensorType != 0, NVML_ERROR_INVALID_ARGUMENT);
    temperature->temperature = (int)gpu->temperature;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, reasons, &gpu));
    *reasons = gpu->clocks_reasons;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                                unsigned long long *count) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, count, &gpu));
    REFUSE(type > 1 || counter > 1, NVML_ERROR_INVALID_ARGUMENT);
    bool uncorrected = type == 1, ever = counter == 1;
    *count = uncorrected ? (ever ? gpu->ecc_uncorrected_ever : gpu->ecc_uncorrected)
                         : (ever ? gpu->ecc_corrected_ever : gpu->ecc_corrected);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                              unsigned int *pending, unsigned int *failed) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, correctable, &gpu));
    REFUSE(uncorrectable == NULL || pending == NULL || failed == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(gpu->board < 0, NVML_ERROR_NOT_SUPPORTED);
    *correctable = gpu->remap_correctable;
    *uncorrectable = gpu->remap_uncorrectable;
    *pending = gpu->remap_pending;
    *failed = gpu->remap_failed;
    END(NVML_SUCCESS);
}

static nvmlReturn_t field_of(const gpu_t *gpu, unsigned int field, unsigned int *value) {
    switch (field) {
        case NVML_FI_DEV_REMAPPED_COR: *value = gpu->remap_correctable; break;
        case NVML_FI_DEV_REMAPPED_UNC: *value = gpu->remap_uncorrectable; break;
        case NVML_FI_DEV_REMAPPED_PENDING: *value = gpu->remap_pending; break;
        case NVML_FI_DEV_REMAPPED_FAILURE: *value = gpu->remap_failed; break;
        case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED: *value = mig_is_resetless(gpu); break;
        case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: *value = gpu->recovery_action; return NVML_SUCCESS;
        default: return NVML_ERROR_NOT_SUPPORTED;
    }
    return gpu->board < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, values, &gpu));
    REFUSE(count < 1, NVML_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now_us();
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].value = (nvmlValue_t){0};
        values[i].nvmlReturn = field_of(gpu, values[i].fieldId, &values[i].value.uiVal);
    }
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, mode, &gpu));
    *mode = gpu->compute_mode;
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode) {
    BEGIN(device);
    gpu_t *gpu;
    TRY(gpu_read(call.state, device, device, &gpu));
    TRY(require(MAY_ALL));
    REFUSE(mode > NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(mode == 1 || (gpu->mig_current && mode != NVML_COMPUTEMODE_DEFAULT), NVML_ERROR_NOT_SUPPORTED);
    gpu->compute_mode = mode;
    END(NVML_SUCCESS);
}

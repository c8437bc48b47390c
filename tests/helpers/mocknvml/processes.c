/* Processes on the GPUs: who they are, what they hold, and the lists of them. */
#include "state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A zombie has closed its files: the driver has taken back what it held. */
static bool is_alive(uint32_t pid) {
    if (kill((pid_t)pid, 0) != 0) return errno == EPERM;
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    return name_end == NULL || (name_end[1] && name_end[2] != 'Z' && name_end[2] != 'X');
}

void processes_sweep(state_t *state) {
    int64_t now = now_us();
    for (uint32_t i = 0; i < MAX_PROCESSES; i++) {
        process_t *process = &state->process[i];
        if (!process->used) continue;
        if (process->died_us == 0 && process->checked && !is_alive(process->pid)) process->died_us = now;
        if (process->died_us != 0 && now - process->died_us >= process->linger_us) process->used = 0;
    }
}

static bool is_of(const process_t *process, uint32_t gpu, uint32_t instance, uint32_t compute) {
    return process->used && process->gpu == gpu && (instance == NO_ID || process->instance == instance) &&
           (compute == NO_ID || process->compute == compute);
}

bool is_held(state_t *state, uint32_t gpu, uint32_t instance, uint32_t compute) {
    processes_sweep(state);
    for (uint32_t i = 0; i < MAX_PROCESSES; i++)
        if (is_of(&state->process[i], gpu, instance, compute)) return true;
    return false;
}

uint64_t bytes_held(state_t *state, uint32_t gpu, uint32_t instance) {
    uint64_t bytes = 0;
    processes_sweep(state);
    for (uint32_t i = 0; i < MAX_PROCESSES; i++)
        if (is_of(&state->process[i], gpu, instance, NO_ID)) bytes += state->process[i].bytes;
    return bytes;
}

static nvmlReturn_t list(state_t *state, nvmlDevice_t device, bool mps, unsigned int *count, nvmlProcessInfo_t *infos) {
    target_t target;
    nvmlReturn_t result = device_read(state, device, &target);
    if (result) return result;
    if (count == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    uint32_t instance = target.instance ? target.instance->id : NO_ID;
    uint32_t compute = target.compute ? target.compute->id : NO_ID;
    unsigned int found = 0, room = *count;
    processes_sweep(state);
    for (uint32_t i = 0; i < MAX_PROCESSES; i++) {
        const process_t *process = &state->process[i];
        if (!is_of(process, target.index, instance, compute) || process->died_us != 0 || process->mps != mps) continue;
        if (found < room && infos != NULL)
            infos[found] = (nvmlProcessInfo_t){.pid = process->pid,
                                               .usedGpuMemory = process->bytes,
                                               .gpuInstanceId = process->instance,
                                               .computeInstanceId = process->compute};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_t *infos) {
    BEGIN(device);
    END(list(call.state, device, false, count, infos));
}

EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                               nvmlProcessInfo_t *infos) {
    BEGIN(device);
    END(list(call.state, device, true, count, infos));
}

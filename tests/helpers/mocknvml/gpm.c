/* Performance counters (GPM): how busy a GPU, or an instance of it, was between two samples. Hopper and newer. */
#include "state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A buffer of the caller's process: what the counters stood at. */
struct nvmlGpmSample_st {
    int64_t at_us;
    double busy;
};

double work_at(const work_t *work, int64_t at_us) {
    return work->before + (double)work->percent * (double)(at_us - work->since_us);
}

void work_set(work_t *work, uint32_t percent) {
    int64_t now = now_us();
    *work = (work_t){.percent = percent, .since_us = now, .before = work_at(work, now)};
}

static bool has_counters(const gpu_t *gpu) { return gpu->architecture >= NVML_DEVICE_ARCH_HOPPER; }

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(support == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(support->version != NVML_GPM_SUPPORT_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    support->isSupportedDevice = has_counters(target.gpu);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    BEGIN(NULL);
    REFUSE(sample == NULL, NVML_ERROR_INVALID_ARGUMENT);
    *sample = calloc(1, sizeof **sample);
    call.state->samples += *sample != NULL;
    END(*sample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    BEGIN(NULL);
    REFUSE(sample == NULL, NVML_ERROR_INVALID_ARGUMENT);
    free(sample);
    call.state->samples--;
    END(NVML_SUCCESS);
}

static void take(const work_t *work, nvmlGpmSample_t sample) {
    sample->at_us = now_us();
    sample->busy = work_at(work, sample->at_us);
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(sample == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(!has_counters(target.gpu), NVML_ERROR_NOT_SUPPORTED);
    take(&target.gpu->work, sample);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId, nvmlGpmSample_t sample) {
    BEGIN(device);
    target_t target;
    TRY(handle_read(call.state, device, HANDLE_GPU, &target));
    REFUSE(sample == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(!has_counters(target.gpu) || !target.gpu->mig_current, NVML_ERROR_NOT_SUPPORTED);
    const instance_t *instance = instance_with_id(call.state, target.index, gpuInstanceId);
    REFUSE(instance == NULL, NVML_ERROR_NOT_FOUND);
    take(&instance->work, sample);
    END(NVML_SUCCESS);
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *asked) {
    BEGIN(NULL);
    REFUSE(asked == NULL || asked->sample1 == NULL || asked->sample2 == NULL, NVML_ERROR_INVALID_ARGUMENT);
    REFUSE(asked->version != NVML_GPM_METRICS_GET_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    REFUSE(asked->numMetrics > NVML_GPM_METRIC_MAX, NVML_ERROR_INVALID_ARGUMENT);
    int64_t apart_us = asked->sample2->at_us - asked->sample1->at_us;
    double busy = asked->sample2->busy - asked->sample1->busy;
    for (unsigned int i = 0; i < asked->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &asked->metrics[i];
        bool known = metric->metricId == NVML_GPM_METRIC_GRAPHICS_UTIL || metric->metricId == NVML_GPM_METRIC_SM_UTIL;
        metric->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        /* The counters are refreshed every 100 ms: between nearer samples nothing has moved, time neither. */
        metric->value = !known ? 0 : apart_us < GPM_REFRESH_US ? (double)NAN : busy / (double)apart_us;
    }
    END(NVML_SUCCESS);
}

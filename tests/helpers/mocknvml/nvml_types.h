/* The part of NVML's interface that the mock answers: numbers and layouts as nvml.h has them. */
#ifndef MOCK_NVML_TYPES_H
#define MOCK_NVML_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned int nvmlReturn_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_GPU_INSTANCE_PROFILE_COUNT = 0x12, NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9 };
enum { NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 7 };
enum { NVML_COMPUTEMODE_DEFAULT = 0, NVML_COMPUTEMODE_PROHIBITED = 2, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3 };
enum { NVML_DEVICE_ARCH_AMPERE = 7, NVML_DEVICE_ARCH_ADA = 8, NVML_DEVICE_ARCH_HOPPER = 9, NVML_DEVICE_ARCH_BLACKWELL = 10 };
enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1 };
enum {
    NVML_FI_DEV_REMAPPED_COR = 142,
    NVML_FI_DEV_REMAPPED_UNC = 143,
    NVML_FI_DEV_REMAPPED_PENDING = 144,
    NVML_FI_DEV_REMAPPED_FAILURE = 145,
    NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED = 184,
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230,
};

#define NVML_EVENT_XID UINT64_C(0x8)
#define NVML_EVENT_MIG_CONFIG_CHANGE UINT64_C(0x100)
#define NVML_EVENTS_SUPPORTED UINT64_C(0xf10b) /* both ECC kinds, XID, MIG changes, poison, unavailable, recovery */

/* Of an event, a process or a MIG device: none, so of the whole GPU. */
#define NO_ID UINT32_C(0xffffffff)

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;

typedef struct {
    unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
    unsigned int version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int start, size;
} nvmlPlacement_t; /* of GPU instances in memory slices, of compute instances in compute slices */

typedef struct {
    nvmlDevice_t device;
    unsigned int id, profileId;
    nvmlPlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    unsigned int id, sliceCount, instanceCount, multiprocessorCount;
    unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
    unsigned int version, id, sliceCount, instanceCount, multiprocessorCount;
    unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned int id, profileId;
    nvmlPlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct {
    unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
    unsigned int sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef union {
    double dVal;
    unsigned int uiVal;
    unsigned long long ullVal;
} nvmlValue_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    unsigned int version, sensorType;
    int temperature;
} nvmlTemperature_t;

enum { NVML_GPM_METRIC_GRAPHICS_UTIL = 1, NVML_GPM_METRIC_SM_UTIL = 2, NVML_GPM_METRIC_MAX = 477 };
enum { NVML_GPM_METRICS_GET_VERSION = 1, NVML_GPM_SUPPORT_VERSION = 1 };

typedef struct {
    unsigned int metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version, numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned int version, isSupportedDevice;
} nvmlGpmSupport_t;

#define VERSIONED(type, number) ((unsigned int)(sizeof(type) | ((unsigned int)(number) << 24)))

_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_t) == 48, "GpuInstanceProfileInfo v1");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152, "GpuInstanceProfileInfo v2");
_Static_assert(VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2) == 0x02000098, "GpuInstanceProfileInfo v2 tag");
_Static_assert(sizeof(nvmlPlacement_t) == 8, "GpuInstancePlacement");
_Static_assert(sizeof(nvmlGpuInstanceInfo_t) == 24, "GpuInstanceInfo");
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_t) == 36, "ComputeInstanceProfileInfo v1");
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_v2_t) == 136, "ComputeInstanceProfileInfo v2");
_Static_assert(VERSIONED(nvmlComputeInstanceProfileInfo_v2_t, 2) == 0x02000088, "ComputeInstanceProfileInfo v2 tag");
_Static_assert(sizeof(nvmlComputeInstanceInfo_t) == 32, "ComputeInstanceInfo");
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "DeviceAttributes");
_Static_assert(sizeof(nvmlEventData_t) == 32, "EventData");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "ProcessInfo v2 and v3");
_Static_assert(sizeof(nvmlMemory_t) == 24, "Memory v1");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "Memory v2");
_Static_assert(sizeof(nvmlUtilization_t) == 8, "Utilization");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "PciInfo");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "FieldValue");
_Static_assert(VERSIONED(nvmlTemperature_t, 1) == 0x0100000c, "Temperature v1");
_Static_assert(sizeof(nvmlGpmMetric_t) == 40, "GpmMetric");
_Static_assert(offsetof(nvmlGpmMetricsGet_t, metrics) == 24, "GpmMetricsGet");
_Static_assert(sizeof(nvmlGpmSupport_t) == 8, "GpmSupport");

#endif

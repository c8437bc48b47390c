"""Triton kernels: one concept a file, each kernel beside the function that launches it and its PyTorch reference.

Only this package imports triton, and nothing imports this package unless a GPU is served. Kernels compute in fp32 after
a load; products take their operands' type as the constexpr ``DOT_DTYPE``, for the interpreter cannot compute in bf16.
"""

from gpuruntime.kernels.gpu import interpreting

if interpreting.is_interpreted():
    interpreting.accept_array_bounds()

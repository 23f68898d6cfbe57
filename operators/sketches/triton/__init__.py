"""Sketches for GPUs: Triton kernels, launched with the parameters of `CONFIG`."""

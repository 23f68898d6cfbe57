"""Sketches for CPUs: C++ with OpenMP, called through ctypes."""

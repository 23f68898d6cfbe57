"""Sketches: parameterised schedules for patterns of the operator graph.

`patterns/` recognises what a graph computes, whatever the device; `cpp/` and `triton/` write
programs for it, for CPUs and for GPUs.
"""

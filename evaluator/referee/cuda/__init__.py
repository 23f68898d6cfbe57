"""Judging on an NVIDIA GPU."""

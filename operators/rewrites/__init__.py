"""Structural edits of Triton kernels, each a small transformer with a precondition."""

"""Sketches: parameterised schedules for patterns of the operator graph."""

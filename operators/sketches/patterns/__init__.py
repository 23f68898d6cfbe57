"""Patterns of the operator graph, recognised by operations and shapes, never by names."""

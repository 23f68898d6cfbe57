"""Inductor's generated code, turned into programs of their own."""

"""Operators: how children are made."""

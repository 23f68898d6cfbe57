"""Archives: what is known about candidates."""

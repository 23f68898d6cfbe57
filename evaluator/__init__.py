"""The evaluator: what a child is worth."""

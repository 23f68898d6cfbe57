"""The worker: the side of the trust boundary on which candidate code runs."""

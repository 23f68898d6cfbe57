"""Workers on an NVIDIA GPU."""

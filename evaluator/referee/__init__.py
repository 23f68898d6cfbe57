"""The referee: owns secrets, comparison, clock and verdict; never runs candidate code."""

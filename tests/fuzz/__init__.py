"""Fuzzing of everything that reads what others wrote; CONTRIBUTING.md says how to run it and how to add a target."""

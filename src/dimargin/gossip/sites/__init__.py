"""Real sites, each of which learns from a data file that may grow and keeps a model file up to date."""

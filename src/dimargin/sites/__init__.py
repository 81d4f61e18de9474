"""Real sites: a data file that may grow goes in, a model file that is always current comes out."""

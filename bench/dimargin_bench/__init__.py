"""Experiments of the papers that `dimargin` repeats, the rivals in them, and their data sets."""

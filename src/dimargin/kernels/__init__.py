"""Kernel functions, rows for the compiled core, and kernel matrices computed on demand."""

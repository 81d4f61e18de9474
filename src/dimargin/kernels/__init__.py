"""Kernel functions, rows as the compiled core takes them, and kernel matrices that are computed as they are needed."""

"""The computer and its environment: memory, threads, optional packages, and atomic writes of files."""

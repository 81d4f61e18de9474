"""The computer and its environment: memory, threads, optional packages, atomic writes of files."""

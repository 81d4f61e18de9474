"""The computer and its environment: memory, threads, optional packages, and files that are written whole."""

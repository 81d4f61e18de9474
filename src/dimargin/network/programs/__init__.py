"""Site programs: what sites compute and tell one another."""

"""Site programs: what sites compute, and the messages between them."""

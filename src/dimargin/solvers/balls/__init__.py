"""Smallest balls around points, and the few points that determine them."""

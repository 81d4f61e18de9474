"""Optimisation problems: losses, the dual problem with its certificate, and linear hinge problems."""

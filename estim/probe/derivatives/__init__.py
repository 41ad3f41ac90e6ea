"""Derivatives of a model that has none of its own, with their error."""

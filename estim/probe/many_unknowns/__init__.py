"""Recovery of many parameters under noise."""

"""Functions of JAX: found from the arrays in their parameters, never imported unless some are given."""

"""The sensitivity probe for anyone's model: what its readings can see of its parameters, and what silence proves.

From below: `model` evaluates what can be probed and knows its parameters and readings; `derivatives` stands in where it
has none; `directions` takes the whitened Jacobian and its error apart; `assemble` makes of all that the `record`, on
behalf of `sensitivity`. On the record stands `verdict`; on models `along` (one direction really evaluated),
`two_models` and `many_unknowns`. `matrix_free` is for models too large for a Jacobian; `torch` and `jax` are adapters,
imported only when such a model is given.
"""

"""Functions of JAX: found from the arrays in their parameters, never imported unless some are given.

`parameters` takes a pytree apart, in `groups` of leaves, `readings` calls its function, in other floats, too
(`precision`, `twin`), where its `loops` end; what can be is `compiled`. `dense` takes the whole `jacobian` of a small
one; `large` makes the record of one that has too many parameters, or readings (`streamed`): `bank` reads the inputs,
gone through in `pieces`; `gram` multiplies `rows`, some `segments` of columns at a time; `products` has those with
vectors, `error` how well all is known. `slopes` holds derivatives against differences. `two_models` compares with an
`other` pytree.
"""

"""Models of torch: found from their modules, never imported unless one is given.

`sensitivity` chooses the way by size; `asked` opens a module, as it is or as a copy in float64: `untouched` gives it
back as it was, in plain `surroundings`, and knows its `parameters`; `bank` its inputs, `readings` what it says of
them. `survey` looks at all of the bank first, `apart` at whether inputs depend on each other; `slopes` holds
gradients against differences, behind no quantiser of `straight_through`.

Derivatives are read off the `graph`: `uses` finds where each parameter enters it, gradients are taken from a `source`
on, `owners` tells their inputs, and `capture` makes them the factors of rows (`convolution`: those of filters). A
small module has its whole `jacobian` from `rows`, held by `dense`, or gone through by `streamed`. Of a large one
`layout` says how the bank is gone through, `segments` yields factors, `by_rows` what has none, and `gram` products,
added up in `sums` (`paired`: without rows); `operator` has products with vectors, by `swapped` parameters. `passes`
has all that `matrix_free` asks for, `error` how well it is known.

`two_models` compares a module with another `state` along the `line` between them.
"""

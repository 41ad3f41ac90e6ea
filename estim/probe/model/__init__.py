"""What can be probed: a model of any kind, its parameters, bank and readings.

`probe` makes of a model what `probed` holds. `kinds` tells what was given: a callable, called by `calls` without
being able to change anything (`untouched`), with a Jacobian that is `given` or differences; a `networks` one; a
fitted one of `statsmodels`; or a `matrix` alone. `parameters` are nested (`missing`: what was not found in them), and
so are `readings`; what is not `finite` is refused or left out. `batches` are the `same_batches` on each pass, and
`stacked` at the end. `short_floats` knows Jacobians of few digits, `names_of_inputs` what a bank calls its inputs,
and `elsewhere` makes a callable of any kind.
"""

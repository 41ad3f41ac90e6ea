"""One unknown under noise.

`response` holds the known mean: `arguments` and `functions` check what it is made of, `interpolated` reads a table,
`monotone` looks for turns and plateaus, `declared` at a given derivative, `inverse` finds roots, `slopes` slopes.
`recovery` asks how wrong the inverted reading is, in two ways that check each other: `moments` integrates the error
exactly; `monte_carlo` simulates it, with an inverse that `fast_inverse` and `table` build for the compiled loop in
`kernels`, on the draws of `normals`. `local` serves all of them near the true value, where differences of means would
cancel. `intervals` holds one reading against its boundary: `interval_of_rise` does so for the mean, through the
acceptance regions of `acceptance`. The records are in `recovery_record` and `interval_record`; modules that end in
`_summary`, `_plot` and `_page` show them, and `notes` says what to know before believing a row.
"""

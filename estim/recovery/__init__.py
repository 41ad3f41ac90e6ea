"""One unknown under noise.

`response` holds the known mean: `monotone` checks it when it is made, `inverse` inverts it by root finding, `slopes`
differentiates it. `recovery` asks how wrong the inverted reading is, in two ways that check each other: `moments`
integrates the error exactly; `monte_carlo` simulates it, with an inverse that `fast_inverse` and `table` build for
the compiled loop in `kernels`. `local` serves all of them near the true value, where differences of means would
cancel. `intervals` holds one reading against its boundary, through the acceptance regions of `acceptance`.
"""

"""Singular values that are proven, and the exact orders with which they vanish.

`singular_values` encloses the values of a Jacobian, or of any matrix, in balls: `graded` finds approximate vectors
whatever the spread of the values, `certify` proves what they show, and `rank_bound` closes the rank from above.
`contact` counts the orders as the query/key scale goes to zero: `series_jacobian` has the Jacobian over power series
or residues, `smith` eliminates, `orders` decides what is proven. The records are in `spectrum_record` and
`contact_record`.
"""

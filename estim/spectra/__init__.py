"""Singular values that are proven, and the exact orders with which they vanish.

`singular_values` encloses the values of a Jacobian, or of any matrix, in balls: `graded` finds approximate vectors
whatever the spread of the values, from those of `jacobi`, `certify` proves what they show, and `rank_bound` closes the
rank from above. `contact_orders` decides which orders are proven as the query/key scale goes to zero: `series_jacobian`
has the Jacobian over power series or residues, `smith` eliminates; `contact_slopes` shows the slopes that approach
them. The records are in `spectrum_record` and `contact_record`, and `plain` writes their numbers.
"""

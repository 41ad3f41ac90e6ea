"""Models with too many parameters for their Jacobian to be held: spectra from Gram matrices of its rows."""

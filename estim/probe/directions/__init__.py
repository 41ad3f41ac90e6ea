"""From a whitened Jacobian and its error to directions, resolved or not."""

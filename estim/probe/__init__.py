"""The sensitivity probe for anyone's model: what its readings can see of its parameters.

From below: `parameters` and `readings` flatten what a model takes and gives, `calls` evaluates it, `complex_step` and
`differences` differentiate it, `derivatives` chooses between them, `models` knows what can be probed and returns
readings, Jacobian and error bound as one record. `along` evaluates a model along one direction. Adapters
(`statsmodels`) are imported only when such a model is given.
"""

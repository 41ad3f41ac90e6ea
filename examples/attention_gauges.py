"""A network, what no output can tell about it, and the rank of its Jacobian."""

import numpy as np

from estim.attention import Layer, Network, equivalent

rng = np.random.default_rng(1)
layers = [Layer(*(rng.integers(-5, 6, shape) for shape in ((3, 2), (3, 2), (3, 3)))) for _ in range(2)]
network = Network(layers).scaled("0.1")
bank = rng.integers(-5, 6, (20, 4, 3)) / 10

print(network)
print("parameters:", network.parameters.size)
print("identifiable:", network.identifiable_dimension, " gauge:", network.gauge_dimension)

jacobian, tangents = network.jacobian(bank), network.gauge_tangents()
print("Jacobian:", jacobian.shape, " rank:", np.linalg.matrix_rank(jacobian))
print("largest effect of a gauge:", f"{np.abs(jacobian @ tangents).max():.0e}")

other = network.regauged(rng=2)
print("other factors, same function:", network != other, equivalent(network, other).reason)

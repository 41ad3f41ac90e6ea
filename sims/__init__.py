"""Monte Carlo and high-precision studies of declared fixtures: ``python -m sims``."""

"""What can be probed: a model of any kind, its parameters, bank and readings."""

"""Tables and pictures from what the studies wrote: ``python -m analysis``."""

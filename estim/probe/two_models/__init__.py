"""Two models and one monitor: predicted and actual shift, and the verdict."""

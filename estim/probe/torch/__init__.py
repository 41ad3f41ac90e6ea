"""Models of torch: found from their modules, never imported unless one is given."""

"""Training for the tree: samplers, losses, labels, updates, rounds."""

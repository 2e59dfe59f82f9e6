"""Training of a mixture of nominators on triples: by gradients, by EM, with a chosen number of nominators."""

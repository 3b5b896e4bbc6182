"""Several platforms of one experiment: NNI's hybrid mode with clusters, or with an order of the platforms."""

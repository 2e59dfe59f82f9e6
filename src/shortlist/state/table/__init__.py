"""Records of users under one version of a model."""

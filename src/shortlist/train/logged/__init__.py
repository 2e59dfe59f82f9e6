"""Training from a full-stage log: its requests as training requests and as instances of retrieval."""

"""What verbs print: output that interprets no markup, progress, JSON, errors as exit codes, shared tables."""

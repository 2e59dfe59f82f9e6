"""Writing the log: from the trace of a run to parts on the disk."""

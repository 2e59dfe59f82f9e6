"""Report of a tree: sections, plots and drawings."""

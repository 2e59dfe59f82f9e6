"""Updates of a tree: items move to other leaves."""

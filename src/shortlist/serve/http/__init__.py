"""What happens to a request before a route sees it: protocol, limits, methods."""

"""The columns of RecFlow: export of a log, and files of RecFlow as logged requests."""

"""The event log behind a store."""


class EventLog:
    """Placeholder until the log is written."""

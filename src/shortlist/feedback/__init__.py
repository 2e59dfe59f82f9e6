"""The full-stage log: what every stage did with every request, and what came back.

A request thread offers the trace of a run; a background thread samples and writes it. Feedback arrives later and
becomes labels when its window has closed.
"""

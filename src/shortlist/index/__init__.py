"""Something searchable, no learning."""

from shortlist.index.exact import search, top

__all__ = ["search", "top"]

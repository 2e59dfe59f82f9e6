"""What of a log cannot be used: how many of each kind, why, and a few examples."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_EXAMPLES = 5  # sentences kept per kind of problem
EXPLAINED: Mapping[str, str] = {
    "bad_manifest_lines": "lines of the manifest that are not parts",
    "unknown_schema": "parts of a schema version that this program does not read; they are not used",
    "bad_parts": "parts that are missing, damaged or not in order; they are not used",
    "incomplete_parts": "parts of which only requests or only candidates can be used; they are not used",
    "missing_stages": "requests whose candidates do not add up to the counts of their stages; they are not used",
    "duplicate_requests": "requests that were logged more than once; each is used once",
    "bad_ids": "rows of events without a request_id or an item_id; they are rejected",
    "unknown_events": "rows of events of an unknown kind; they are rejected",
    "bad_times": "rows of events with impossible times; they are rejected",
    "from_the_future": "rows of events with a time after their arrival; they are rejected",
    "bad_values": "rows of events with a value that is not a number; they are rejected",
}


@dataclass
class Problems:
    """What a reader left out: how many of each kind, and a few sentences about each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, sentence: str, count: int = 1) -> None:
        """Count a problem and keep its sentence if there are few of its kind."""
        if count:
            self.counts[kind] += count
            kept = self.examples.setdefault(kind, [])
            if len(kept) < MAX_EXAMPLES and sentence not in kept:
                kept.append(sentence)

    @property
    def explained(self) -> tuple[str, ...]:
        """One sentence per kind."""
        return tuple(f"{count:,} {EXPLAINED[kind]}" for kind, count in sorted(self.counts.items()))

"""Claims of the specification tried out on numbers: `python -m shortlist.lab.theory.checks`, under a minute on a core."""

import sys
from collections.abc import Callable, Iterable

from shortlist.lab.theory.bounds_checks import BOUND_CHECKS
from shortlist.lab.theory.check import Check
from shortlist.lab.theory.margin_checks import MARGIN_CHECKS

CHECKS: tuple[Callable[[], Check], ...] = (*MARGIN_CHECKS, *BOUND_CHECKS)


def table(checks: Iterable[Check]) -> str:
    """Checks as lines of text, their columns in line."""
    head = ("", "check", "size", "expected", "found")
    rows = [("ok" if one.ok else "FAILED", one.name, one.size, one.expected, one.found) for one in checks]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))
    return "\n".join(lines) + "\n"


def main(checks: Iterable[Callable[[], Check]] = CHECKS) -> int:
    """Try all of them, print what came out; 1 when one failed."""
    found = [check() for check in checks]
    sys.stdout.write(table(found))
    return 0 if all(one.ok for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())

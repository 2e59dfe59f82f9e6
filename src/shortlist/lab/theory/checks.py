"""Numeric checks of the claims of both papers: `python -m shortlist.lab.theory.checks`, under a minute on a core."""

import sys
from collections.abc import Callable, Iterable

from shortlist.lab.theory.bounds_checks import BOUND_CHECKS
from shortlist.lab.theory.margin_checks import MARGIN_CHECKS, Check

CHECKS: tuple[Callable[[], Check], ...] = (*MARGIN_CHECKS, *BOUND_CHECKS)


def table(checks: Iterable[Check]) -> str:
    """Checks as a text table."""
    head = ("", "check", "size", "expected", "found")
    rows = [
        ("ok" if check.ok else "FAILED", check.name, check.size, check.expected, check.found)
        for check in checks
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))
    return "\n".join(lines) + "\n"


def main(checks: Iterable[Callable[[], Check]] = CHECKS) -> int:
    """Run all checks and print them; returns 1 if one failed."""
    results = [check() for check in checks]
    sys.stdout.write(table(results))
    return 0 if all(check.ok for check in results) else 1


if __name__ == "__main__":
    sys.exit(main())

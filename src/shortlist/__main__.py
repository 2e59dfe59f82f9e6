"""The way in: `shortlist`, or `python -m shortlist`."""

import sys

try:
    from shortlist.cli import app
except KeyboardInterrupt:  # importing takes a moment, and a hasty user need not see where
    sys.exit("stopped; nothing was begun")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

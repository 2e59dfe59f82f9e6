"""Entry point: `shortlist`, or `python -m shortlist`."""

import sys

try:
    from shortlist.cli import app
except KeyboardInterrupt:  # Ctrl-C while importing
    sys.exit("stopped; nothing was started")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

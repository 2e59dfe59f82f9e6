"""Entry point: `shortlist`, or `python -m shortlist`."""

import os
import sys

# Before torch is imported. Threads that wait actively for each other stop all work when another process needs the
# processor: on two busy cores a training took four times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

try:
    from shortlist.cli import app
except KeyboardInterrupt:  # Ctrl-C while importing
    sys.stderr.write("stopped; nothing was started\n")
    sys.exit(130)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

import subprocess
import sys

from shortlist import __version__


def test_the_package_runs_as_a_program():
    asked = subprocess.run(
        [sys.executable, "-m", "shortlist", "--version"], capture_output=True, text=True, check=True
    )
    assert asked.stdout.strip() == __version__

import subprocess
import sys

from shortlist import __version__


def test_package_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "shortlist", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == __version__

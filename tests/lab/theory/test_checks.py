import subprocess
import sys

from shortlist.lab.theory.checks import CHECKS, main, table
from shortlist.lab.theory.margin_checks import Check

GOOD = Check("water is wet", "3 drops", "wet", "wet", True)
BAD = Check("fire is cold", "1 fire", "cold", "hot", False)


def test_every_check_has_a_row_and_a_failed_one_is_marked():
    lines = table([GOOD, BAD]).splitlines()
    assert [line.split()[0] for line in lines] == ["check", "ok", "FAILED"]
    starts = [line.index(word) for line, word in zip(lines, ("size", "3 drops", "1 fire"), strict=True)]
    assert len(set(starts)) == 1


def test_one_failed_check_gives_exit_code_1(capsys):
    assert main([lambda: GOOD]) == 0
    assert main([lambda: GOOD, lambda: BAD]) == 1
    assert "hot" in capsys.readouterr().out


def test_check_names_are_unique():
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS) >= 4


def test_the_command_prints_ok():
    done = subprocess.run(
        [sys.executable, "-m", "shortlist.lab.theory.checks"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["ok"] * len(CHECKS)

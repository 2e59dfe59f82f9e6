import subprocess
import sys

from shortlist.lab.theory.check import Check
from shortlist.lab.theory.checks import CHECKS, main, table

GOOD = Check("water is wet", "3 drops", "wet", "wet", True)
BAD = Check("fire is cold", "1 fire", "cold", "hot", False)


def test_every_claim_has_a_row_and_a_failed_one_is_seen():
    lines = table([GOOD, BAD]).splitlines()
    assert [line.split()[0] for line in lines] == ["check", "ok", "FAILED"]
    starts = [line.index(word) for line, word in zip(lines, ("size", "3 drops", "1 fire"), strict=True)]
    assert len(set(starts)) == 1


def test_one_failed_claim_fails_them_all(capsys):
    assert main([lambda: GOOD]) == 0
    assert main([lambda: GOOD, lambda: BAD]) == 1
    assert "hot" in capsys.readouterr().out


def test_checks_have_names_of_their_own():
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS) >= 4


def test_it_is_a_command_that_says_ok_or_fails():
    done = subprocess.run(
        [sys.executable, "-m", "shortlist.lab.theory.checks"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["ok"] * len(CHECKS)

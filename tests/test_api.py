"""The public functions: lazy, callable, and with the names and defaults of the verbs."""

import inspect
import subprocess
import sys

import pytest

import shortlist
from shortlist.cli import VERBS, load_verb

FUNCTIONS = {
    name: getattr(shortlist, name) for name in ("plan", "train", "refresh", "evaluate", "compare", "diagnose")
}
ONLY_ON_COMMAND_LINE = {"json", "report", "html", "drawing", "help", "bundle", "bundles", "data", "recipe"}


def test_importing_the_package_and_help_load_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, shortlist; from typer.testing import CliRunner; from shortlist.cli import app; "
        "answer = CliRunner().invoke(app, ['--help']); assert answer.exit_code == 0, answer.output; "
        "print([name for name in ('torch', 'matplotlib', 'numpy', 'numba', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = shortlist.no_such_thing


def test_rooms_named_like_functions_are_callable() -> None:
    for name in ("train", "evaluate", "diagnose"):
        assert callable(getattr(shortlist, name))
        assert inspect.ismodule(getattr(shortlist, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_the_options_and_defaults_of_its_verb(name: str) -> None:
    function = inspect.signature(FUNCTIONS[name]).parameters
    for option in load_verb(name).params:
        if option.name in ONLY_ON_COMMAND_LINE:
            continue
        assert option.name in function, f"shortlist.{name} lacks {option.name}"
        default = function[option.name].default
        given = option.default if not callable(option.default) else option.default()
        assert default is inspect.Parameter.empty or default == given or (not default and not given), (
            option.name
        )


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_is_what_the_list_of_verbs_says(verb: str) -> None:
    command = load_verb(verb)
    assert command.name == verb
    assert (command.help or "").strip() == VERBS[verb]

import pytest

from shortlist.data.tables.files import File
from shortlist.data.tables.sniff import DELIMITERS, sniff_decimal, sniff_delimiter, sniff_format
from shortlist.errors import ConfigError


@pytest.mark.parametrize("mark", DELIMITERS)
@pytest.mark.parametrize("usual", [",", "\t", ""])
def test_the_delimiter_is_the_one_that_yields_the_columns(put, mark, usual):
    file = File(put("log", mark.join(["user", "item", "note"]) + "\n" + mark.join("123") + "\n"))
    assert sniff_delimiter(file, ("user", "item"), (), usual) == mark


def test_other_delimiters_inside_the_fields_do_not_matter(put):
    file = File(put("log", "user;item;a, b | c\n1;2;x, y | z\n"))
    assert sniff_delimiter(file, ("user", "item"), (), ",") == ";"


def test_without_header_most_lines_have_as_many_fields_as_names(put):
    file = File(put("log", "1;4,5;x\nbroken\n2;3,5;y\n3;1;z\n"))
    assert sniff_delimiter(file, (), ("user", "weight", "item"), ",") == ";"


def test_if_no_delimiter_yields_the_columns_the_one_with_most_fields_lists_them(put):
    assert sniff_delimiter(File(put("log", "a;b;c\n1;2;3\n")), ("user",), (), "") == ";"
    assert sniff_delimiter(File(put("log", "a,b;c;d\n")), ("user",), (), ",") == ","


def test_an_unclear_or_unknown_delimiter_comes_with_the_option(put):
    message = r"its delimiter is not clear from '1;2\|3'; use --delimiter ';' or --delimiter '\|'$"
    with pytest.raises(ConfigError, match=message):
        sniff_delimiter(File(put("log", "1;2|3\n")), (), ("user", "item"), "")
    with pytest.raises(ConfigError, match=r"got 'user~item'; use --delimiter '~'$"):
        sniff_delimiter(File(put("log", "user~item\n")), ("user", "item"), (), ",")


@pytest.mark.parametrize(
    ("rows", "sign"), [("1;4,5", ","), ("1;4", "."), ("1;4.5", "."), ("1;4,5\n1;4.5", "."), ("1;a,b", ".")]
)
def test_a_decimal_comma_is_detected_in_the_columns_of_numbers(put, rows, sign):
    file = File(put("log", f"user;weight\n{rows}\n"))
    assert sniff_decimal(file, ";", [1]) == sign
    assert sniff_decimal(file, ";", []) == sniff_decimal(file, ",", [1]) == "."


def test_the_format_follows_from_the_first_bytes(put):
    texts = {"jsonl": ' {"user": 1}\n', "csv": "user;item\n", "parquet": "PAR1", "": "x"}
    assert [sniff_format(File(put("log", text))) for text in texts.values()] == list(texts)

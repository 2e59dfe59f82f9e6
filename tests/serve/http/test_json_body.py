"""Why a body is not JSON, in the words of the service."""

import pytest

from shortlist.serve.http.json_body import check_json
from shortlist.serve.problems import RefusedError

REASONS = {
    b"": "it is empty; send at least {} at line 1 column 1",
    b" \n": "it is empty; send at least {} at line 2 column 1",
    b"{'k': 3}": '"\'" is not expected at line 1 column 2',
    b'{"k": }': "'}' is not expected at line 1 column 7",
    b'{"k": 3': "the end of the body is not expected at line 1 column 8",
    b'{"k" 3}': "'3' is not expected at line 1 column 6",
    b"{}\n{}": "a second value begins at line 2 column 1",
    b'{"k': "a string has no end at line 1 column 2",
    b'{"a": "\t"}': "a string holds a control character; escape it at line 1 column 8",
    b'{"a": "\\x"}': "a string holds an invalid escape at line 1 column 8",
    b'{"k": NaN}': "NaN is not a JSON number; send null or leave the field out",
    b'{"k": 1, "k": 2}': "an object holds the key 'k' twice",
    b'{"a": "\xff"}': "byte 7 is not UTF-8; send the body in UTF-8",
    b"\xef\xbb\xbf{}": "it begins with a byte order mark; send it without at line 1 column 1",
    b"[" * 100_000: "it is nested too deeply",
    b"9" * 5000: "a number has too many digits",
}


@pytest.mark.parametrize(("body", "reason"), REASONS.items(), ids=range(len(REASONS)))
def test_reason_has_the_place_and_no_words_of_the_parser(body, reason):
    with pytest.raises(RefusedError) as caught:
        check_json(body)
    assert (caught.value.code, str(caught.value)) == ("malformed-json", f"the body cannot be read: {reason}")


def test_plain_json_is_accepted():
    check_json('{"user_id": "ä", "history": [1, "1"]}'.encode())

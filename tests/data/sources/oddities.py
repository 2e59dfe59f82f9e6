"""The inputs behind docs/guide/input-oddities.md: the files of each row of its table, and what is read from them."""

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq

S, MS = 1700000000, 1700000000000
HEAD = "user,item,time,weight\n"
ROWS = f"ann,1,{S},5\nbob,2,{S + 60},3\n"
LOG = HEAD + ROWS
EVENTS = [("ann", 1, MS, 5.0), ("bob", 2, MS + 60000, 3.0)]
ACCENT = f"{HEAD}renée,1,{S},5\nbob,2,{S + 60},3\n"
ACCENT_EVENTS = [("renée", 1, MS, 5.0), EVENTS[1]]
REFUSED = None  # the table of the page has the message


def zipped(**members):
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)
    return blob.getvalue()


def parquet(**columns):
    blob = io.BytesIO()
    pq.write_table(pa.table(columns), blob)
    return blob.getvalue()


def timed(*times):
    return HEAD + "".join(f"u{at},1,{time},1\n" for at, time in enumerate(times))


def at(*milliseconds):
    return [(f"u{row}", 1, time, 1.0) for row, time in enumerate(milliseconds)]


CASES = {
    "UTF-8 with a byte-order mark": ({"log.csv": "\ufeff" + ACCENT}, ACCENT_EVENTS),
    "UTF-16 with a byte-order mark": ({"log.csv": ACCENT.encode("utf-16")}, ACCENT_EVENTS),
    "UTF-16 without a byte-order mark": ({"log.csv": LOG.encode("utf-16-le")}, REFUSED),
    "UTF-16 without a mark, named": ({"log.csv": ACCENT.encode("utf-16-le")}, ACCENT_EVENTS),
    "Windows-1252 or Latin-1": ({"log.csv": ACCENT.encode("cp1252")}, REFUSED),
    "Windows-1252, named": ({"log.csv": ACCENT.encode("cp1252")}, ACCENT_EVENTS),
    "a byte that the named encoding does not have": ({"log.csv": ACCENT.encode("cp1252")}, REFUSED),
    "semicolons": ({"log.csv": LOG.replace(",", ";")}, EVENTS),
    "tabs in a `.csv`": ({"log.csv": LOG.replace(",", "\t")}, EVENTS),
    "pipes": ({"log.txt": LOG.replace(",", "|")}, EVENTS),
    "double colons": ({"log.dat": LOG.replace(",", "::")}, EVENTS),
    "spaces": ({"log.txt": LOG.replace(",", " ")}, EVENTS),
    "another delimiter": ({"log.csv": LOG.replace(",", "^")}, REFUSED),
    "another delimiter, named": ({"log.csv": LOG.replace(",", "^")}, EVENTS),
    "no header, delimiter not clear": ({"log.txt": "ann;1|7\nbob;2|7\n"}, REFUSED),
    "no header": ({"log.csv": ROWS}, EVENTS),
    "quoted delimiters": ({"log.csv": f'{HEAD}"Doe, J.",1,{S},5\n'}, [("Doe, J.", 1, MS, 5.0)]),
    "doubled quotes": ({"log.csv": f'{HEAD}"the ""x""",1,{S},5\n'}, [('the "x"', 1, MS, 5.0)]),
    "a newline inside quotes": (
        {"log.csv": 'user,item,note\nann,1,"two\nlines"\nbob,2,one\n'},
        [("ann", 1, None, None), ("bob", 2, None, None)],
    ),
    "a quote that never closes": ({"log.csv": f'{HEAD}"ann,1,{S},5\nbob,2,{S},3\n'}, REFUSED),
    "CRLF line ends": ({"log.csv": LOG.replace("\n", "\r\n")}, EVENTS),
    "CR line ends": ({"log.csv": LOG.replace("\n", "\r")}, EVENTS),
    "blank lines": ({"log.csv": LOG.replace("\n", "\n\n")}, EVENTS),
    "no newline at the end": ({"log.csv": LOG.rstrip()}, EVENTS),
    "times in seconds": ({"log.csv": timed(S, S + 1)}, at(MS, MS + 1000)),
    "times in milliseconds": ({"log.csv": timed(MS, MS + 1)}, at(MS, MS + 1)),
    "times with a fraction": ({"log.csv": timed(f"{S}.25", f"{S}.5")}, at(MS + 250, MS + 500)),
    "ISO times": ({"log.csv": timed("2023-11-14T22:13:20", "2023-11-14T22:13:21")}, at(MS, MS + 1000)),
    "ISO times with a zone": ({"log.csv": timed("2023-11-14T23:13:20+01:00")}, at(MS)),
    "dates": ({"log.csv": timed("2023-11-14", "2023-11-15")}, at(1699920000000, 1700006400000)),
    "day/month/year": ({"log.csv": timed("14/11/2023")}, REFUSED),
    "day/month/year, named": ({"log.csv": timed("14/11/2023")}, at(1699920000000)),
    "seconds and milliseconds in one file": ({"log.csv": timed(S, MS, S + 1)}, REFUSED),
    "numbers and dates in one file": ({"log.csv": timed("2023-11-14", S)}, REFUSED),
    "numbers and dates in one file, skipped": (
        {"log.csv": timed("2023-11-14", S, "2023-11-15")},
        [("u0", 1, 1699920000000, 1.0), ("u2", 1, 1700006400000, 1.0)],
    ),
    "a truncated time": ({"log.csv": timed(S, S + 1, "17000")}, REFUSED),
    "gzip": ({"log.csv.gz": gzip.compress(LOG.encode())}, EVENTS),
    "bzip2": ({"log.csv.bz2": bz2.compress(LOG.encode())}, EVENTS),
    "xz": ({"log.csv.xz": lzma.compress(LOG.encode())}, EVENTS),
    "Zstandard": ({"log.csv.zst": pa.compress(LOG.encode(), codec="zstd", asbytes=True)}, EVENTS),
    "gzip without its suffix": ({"log.csv": gzip.compress(LOG.encode())}, EVENTS),
    "a truncated gzip": ({"log.csv.gz": gzip.compress(LOG.encode())[:-9]}, REFUSED),
    "a zip of several files": (
        {"log.zip": zipped(a_csv=HEAD + ROWS.splitlines()[0], b_csv=HEAD + ROWS.splitlines()[1])},
        EVENTS,
    ),
    "a folder of files": (
        {"day1.csv": HEAD + ROWS.splitlines()[0], "day2.csv": HEAD + ROWS.splitlines()[1]},
        EVENTS,
    ),
    "a file with other columns": ({"day1.csv": LOG, "day2.csv": f"user,item,time\nann,1,{S}\n"}, REFUSED),
    "a spreadsheet": ({"log.xlsx": b"PK\x03\x04"}, REFUSED),
    "decimal commas, semicolons": ({"log.csv": "user;item;weight\nann;1;4,5\nbob;2;3\n"}, [
        ("ann", 1, None, 4.5),
        ("bob", 2, None, 3.0),
    ]),
    "decimal commas in quotes": ({"log.csv": 'user,item,weight\nann,1,"4,5"\n'}, REFUSED),
    "decimal commas, named": ({"log.csv": 'user,item,weight\nann,1,"4,5"\n'}, [("ann", 1, None, 4.5)]),
    "several categories in one field": (
        {"log.csv": "user,item\nann,1\n", "items.csv": "item,category\n1,Action|Comedy\n"},
        [("ann", 1, None, None)],
    ),
    "ids with leading zeros": (
        {"log.csv": "user,item\n010,1\n10,1\n"},
        [("010", 1, None, None), ("10", 1, None, None)],
    ),
    'JSON ids 10 and "10"': (
        {"log.jsonl": '{"user": 10, "item": 1}\n{"user": "10", "item": 2}\n{"user": "010", "item": 2}\n'},
        [("10", 1, None, None), ("10", 2, None, None), ("010", 2, None, None)],
    ),
    "integers in Parquet": ({"log.parquet": parquet(user=[10, 7], item=[1, 2])}, [
        (10, 1, None, None),
        (7, 2, None, None),
    ]),
    "a JSON array": ({"log.json": '[{"user": 10, "item": 1}]'}, REFUSED),
    "a column name twice": ({"log.csv": "user,user,item\na,b,1\n"}, REFUSED),
    "an empty file": ({"log.csv": ""}, REFUSED),
    "only a header": ({"log.csv": HEAD}, REFUSED),
    "a missing column": ({"log.csv": LOG.replace("user", "user_id")}, REFUSED),
    "a trailing delimiter in the rows": ({"log.csv": HEAD + ROWS.replace("\n", ",\n")}, REFUSED),
    "a trailing delimiter in all lines": ({"log.csv": LOG.replace("\n", ",\n")}, EVENTS),
    "a zero byte in an id": ({"log.csv": LOG.replace("bob", "b\x00b")}, REFUSED),
    "a line with too few fields": ({"log.csv": LOG + "bob,3\n" + f"bob,4,{S},1\n"}, REFUSED),
    "bad lines, skipped": (
        {"log.csv": f"{LOG}bob,3\nbob,4,soon,1\nbob,4,{S},five\n,4,{S},1\nbob,4,17,1\nb\x07b,4,{S},1\n"},
        EVENTS,
    ),
    "an empty id": ({"log.csv": f"{LOG},3,{S},1\n"}, EVENTS),
    "an event twice": ({"log.csv": LOG + f"bob,2,{S + 60},3\n"}, EVENTS),
}  # fmt: skip

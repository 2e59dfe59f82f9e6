"""Files and frames of rows: bytes, encodings, delimiters, columns, times, and rows that cannot be used."""

"""PostgreSQL's own client library for the test tools, without anything installed beside it.

    with Connection("postgresql:///shop?host=/tmp/x") as db:
        for id, name in db.query("SELECT id, name FROM t"): ...

Values are text as the server prints it under pinned settings, as bytes, or None.
"""
import ctypes
import ctypes.util

_lib = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
_p, _i, _s = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
for _name, _result, _arguments in (
        ("PQconnectdb", _p, [_s]), ("PQstatus", _i, [_p]), ("PQfinish", None, [_p]),
        ("PQerrorMessage", _s, [_p]), ("PQexec", _p, [_p, _s]), ("PQresultStatus", _i, [_p]),
        ("PQresultErrorField", _s, [_p, _i]), ("PQresultErrorMessage", _s, [_p]), ("PQclear", None, [_p]),
        ("PQntuples", _i, [_p]), ("PQnfields", _i, [_p]), ("PQgetisnull", _i, [_p, _i, _i]),
        ("PQgetlength", _i, [_p, _i, _i]), ("PQgetvalue", _p, [_p, _i, _i]), ("PQcmdTuples", _s, [_p]),
        ("PQtransactionStatus", _i, [_p]), ("PQgetCopyData", _i, [_p, ctypes.POINTER(_p), _i]),
        ("PQgetResult", _p, [_p]), ("PQfreemem", None, [_p]), ("PQputCopyData", _i, [_p, _s, _i]),
        ("PQputCopyEnd", _i, [_p, _s]),
        ("PQsetNoticeProcessor", _p, [_p, _p, _p])):
    _function = getattr(_lib, _name)
    _function.restype, _function.argtypes = _result, _arguments

_NO_NOTICES = ctypes.CFUNCTYPE(None, _p, _s)(lambda context, text: None)

SETTINGS = ("DateStyle=ISO,MDY", "IntervalStyle=postgres", "TimeZone=UTC", "extra_float_digits=3",
            "bytea_output=hex", "lc_monetary=C", "xmloption=content", "client_min_messages=error")


class Error(Exception):
    """An error of the server or of libpq; `state` is the SQLSTATE, empty if no server answered."""

    def __init__(self, message, state=""):
        super().__init__(message.strip())
        self.state = state


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    """A string constant, whatever standard_conforming_strings is."""
    if text is None:
        return "NULL"
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


class Connection:
    def __init__(self, url, application="tools", settings=SETTINGS):
        self.handle = _lib.PQconnectdb(url.encode())
        if _lib.PQstatus(self.handle) != 0:
            message = _lib.PQerrorMessage(self.handle).decode("utf-8", "replace")
            _lib.PQfinish(self.handle)
            self.handle = None
            raise Error(message)
        _lib.PQsetNoticeProcessor(self.handle, ctypes.cast(_NO_NOTICES, _p), None)
        self.run("SET client_encoding = 'UTF8'; SET application_name = %s" % literal(application))
        for setting in settings:
            name, value = setting.split("=", 1)
            self.run("SET %s = %s" % (name, "ISO, MDY" if name == "DateStyle" else literal(value)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.handle:
            _lib.PQfinish(self.handle)
        self.handle = None

    @property
    def is_lost(self):
        return _lib.PQstatus(self.handle) != 0

    @property
    def in_transaction(self):
        return _lib.PQtransactionStatus(self.handle) in (2, 3)

    @property
    def has_failed(self):
        """In a transaction that can only be rolled back."""
        return _lib.PQtransactionStatus(self.handle) == 3

    def _check(self, result):
        status = _lib.PQresultStatus(result) if result else 7
        if status in (0, 1, 2, 3, 4):
            return status
        state = _lib.PQresultErrorField(result, ord("C")) if result else None
        message = _lib.PQresultErrorMessage(result) if result else _lib.PQerrorMessage(self.handle)
        _lib.PQclear(result)
        raise Error(message.decode("utf-8", "replace"), (state or b"").decode())

    def run(self, sql):
        """Run statements; returns the rows that the last one touched."""
        result = _lib.PQexec(self.handle, sql.encode("utf-8", "surrogateescape"))
        self._check(result)
        touched = _lib.PQcmdTuples(result)
        _lib.PQclear(result)
        return int(touched) if touched else 0

    def query(self, sql):
        """All rows of one statement, as lists of bytes or None."""
        result = _lib.PQexec(self.handle, sql.encode("utf-8", "surrogateescape"))
        self._check(result)
        try:
            width = range(_lib.PQnfields(result))
            return [[None if _lib.PQgetisnull(result, row, column)
                     else ctypes.string_at(_lib.PQgetvalue(result, row, column),
                                           _lib.PQgetlength(result, row, column))
                     for column in width] for row in range(_lib.PQntuples(result))]
        finally:
            _lib.PQclear(result)

    def texts(self, sql):
        """As query(), decoded."""
        return [[None if v is None else v.decode() for v in row] for row in self.query(sql)]

    def copy(self, sql):
        """Yield the rows of COPY ... TO STDOUT (text format), one after the other."""
        result = _lib.PQexec(self.handle, ("COPY (%s) TO STDOUT" % sql).encode())
        self._check(result)
        _lib.PQclear(result)
        buffer = _p()
        while True:
            length = _lib.PQgetCopyData(self.handle, ctypes.byref(buffer), 0)
            if length <= 0:
                break
            line = ctypes.string_at(buffer, length - 1)
            _lib.PQfreemem(buffer)
            if b"\\" in line:
                yield [None if field == b"\\N" else _unescape(field) for field in line.split(b"\t")]
            else:
                yield line.split(b"\t")
        if length == -2:
            raise Error(_lib.PQerrorMessage(self.handle).decode("utf-8", "replace"))
        while True:
            result = _lib.PQgetResult(self.handle)
            if not result:
                return
            self._check(result)
            _lib.PQclear(result)

    def put(self, sql, lines):
        """COPY ... FROM STDIN with lines of its text format."""
        result = _lib.PQexec(self.handle, sql.encode())
        self._check(result)
        _lib.PQclear(result)
        for line in lines:
            data = line.encode()
            if _lib.PQputCopyData(self.handle, data, len(data)) != 1:
                raise Error(_lib.PQerrorMessage(self.handle).decode("utf-8", "replace"))
        if _lib.PQputCopyEnd(self.handle, None) != 1:
            raise Error(_lib.PQerrorMessage(self.handle).decode("utf-8", "replace"))
        while True:
            result = _lib.PQgetResult(self.handle)
            if not result:
                return
            self._check(result)
            _lib.PQclear(result)


_ESCAPES = {ord("b"): b"\b", ord("f"): b"\f", ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("v"): b"\v"}


def _unescape(field):
    if b"\\" not in field:
        return field
    parts = field.split(b"\\")
    out = [parts[0]]
    index = 1
    while index < len(parts):
        part = parts[index]
        if part:
            out.append(_ESCAPES.get(part[0], part[:1]) + part[1:])
        else:
            # An empty part between two backslashes: an escaped backslash.
            out.append(b"\\" + (parts[index + 1] if index + 1 < len(parts) else b""))
            index += 1
        index += 1
    return b"".join(out)

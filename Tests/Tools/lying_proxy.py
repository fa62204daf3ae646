#!/usr/bin/python3
"""A proxy between two nodes, which passes on all that they say, and lies about the rows of the node that it hides.

    lying_proxy.py PORT PORT_BEHIND FILE

It speaks plain HTTP on loopback (docs/reference/protocol.md, Questions about rows). FILE says which answers to
questions are lies, in JSON; without it all are true:

    {"kind": 5, "body": "00 00 ff"}    each answer to a question of this kind (0: of any) is these bytes
    {"kind": 1, "cut": 9}              of the true answer only so many bytes
    {"kind": 1, "clear": 3, "bits": 2} bits of one byte of the true answer are cleared
    {"kind": 0, "seed": 7}             one answer of six has a few other bytes
    {"kind": 5, "mebibytes": 1000}     an answer without an end

Exit status: 2 for a wrong command line, else it runs until it is ended.
"""
import http.client
import http.server
import json
import random
import sys

EXTREMES = [b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 8 + b"\x40", b"\x7f", b"\x00"]
LENGTHS = {"content-length", "transfer-encoding", "connection"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, headers, answer = self.ask(body)
        except (OSError, http.client.HTTPException):
            self.behind = None
            self.close_connection = True
            return
        is_question = self.command == "POST" and self.path.endswith("/questions") and status == 200
        lie = self.lie(body) if is_question else None
        if lie and "mebibytes" in lie:
            return self.flood(lie["mebibytes"])
        if lie:
            answer = lied(lie, answer)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in LENGTHS and name.lower() not in ("date", "server"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_POST = do_GET
    do_HEAD = do_GET

    def ask(self, body):
        if self.behind is None:
            self.behind = http.client.HTTPConnection("127.0.0.1", BEHIND, timeout=120)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in LENGTHS}
        self.behind.request(self.command, self.path, body=body or None, headers=headers)
        answer = self.behind.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def lie(self, question):
        try:
            with open(LIE) as file:
                lie = json.load(file)
        except (OSError, ValueError):
            return None
        return lie if lie["kind"] in (0, question[1]) else None

    def flood(self, mebibytes):
        self.send_response(200)
        self.send_header("Content-Length", str(mebibytes << 20))
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(b"\0\0")
            for _ in range(mebibytes):
                self.wfile.write(b"\xff" * (1 << 20))
        except OSError:
            pass


def lied(lie, answer):
    if "body" in lie:
        return bytes.fromhex(lie["body"])
    if "cut" in lie:
        return answer[: lie["cut"]]
    changed = bytearray(answer)
    if "clear" in lie:
        changed[lie["clear"]] &= 255 ^ lie["bits"]
        return bytes(changed)
    if RANDOM.randrange(6):
        return answer
    for _ in range(RANDOM.randint(1, 3)):
        at = RANDOM.randrange(min(len(changed), 60) or 1)
        way = RANDOM.randrange(4)
        if way == 0 and changed:
            changed[at] = RANDOM.randrange(256)
        elif way == 1 and changed:
            changed[at] ^= 1 << RANDOM.randrange(8)
        elif way == 2:
            changed[at : at + RANDOM.randrange(2)] = RANDOM.choice(EXTREMES)
        else:
            del changed[at:]
    return bytes(changed)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, *_):
        pass


if len(sys.argv) != 4:
    sys.exit(__doc__.split("\n\n")[1])
BEHIND, LIE, RANDOM = int(sys.argv[2]), sys.argv[3], random.Random(7)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

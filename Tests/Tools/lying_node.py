#!/usr/bin/python3
"""A node that others dial, and whose every text is meant for the terminal of their operator.

    lying_node.py PORT [CERTIFICATE KEY]

It speaks HTTP on loopback, or TLS with a certificate (docs/reference/protocol.md). Names, messages, hints, reasons,
headers and bodies have control characters, quotes, line feeds and lines of metrics; some are very long. A trail that is
pushed to it is accepted, and it asks for copies and rows of it. Exit status: 2 for a wrong command line, else it runs
until it is ended.
"""
import json
import socketserver
import ssl
import sys
import time

EVIL = 'x\x1b]0;owned\x07\x9b31m\u202e\r\n\x85"\\} 1\nevil_metric{a="b"} 2\n\u0301z'
LONG = EVIL * 4_000
TRAILS = ["error", "long", "reason", "text", "version", "damaged", "ok"]


def fault(text):
    return {"code": text, "message": text, "hint": text, "state": {"node": text, "trail": text}}


def report(name, trail_id="07" * 16, requests=()):
    end = {"segment": 1, "offset": 4096, "chain": "00" * 32, "position": "00000001:00000200"}
    return {
        "node": EVIL, "trail": name, "id": trail_id, "oldest": 1, "end": end, "transaction": 9, "applied": EVIL,
        "requests": list(requests),
    }


def asked(number):
    return {"id": "a%d" % number, "tables": [EVIL, "item", LONG[:9000]]}


class Handler(socketserver.StreamRequestHandler):
    pushed = False

    def handle(self):
        try:
            while self.one():
                pass
        except OSError:
            pass

    def one(self):
        line = self.rfile.readline(65536)
        words = line.split()
        length = 0
        while True:
            head = self.rfile.readline(65536)
            if head in (b"\r\n", b""):
                break
            if head.lower().startswith(b"content-length:"):
                length = int(head.split(b":")[1])
        if len(words) < 3:
            return False
        self.rfile.read(length)
        method, path = words[0].decode(), words[1].decode().split("?")[0]
        self.answer(method, path)
        return True

    def answer(self, method, path):
        name = path.split("/")[4] if path.startswith("/cairn/1/trails/") else ""
        if path == "/cairn":
            return self.json(200, {"node": EVIL, "version": EVIL, "versions": [1] if Handler.pushed else [9, EVIL]})
        if path == "/cairn/1/trails":
            told = [report("evil.%s" % trail) for trail in TRAILS] + [report(EVIL), report("evil." + EVIL)]
            return self.json(200, {"node": EVIL, "trails": told})
        if path == "/cairn/1/requests":
            time.sleep(0.5)
            requests = [{"trail": "hq.erp", "requests": [asked(7)]}, {"trail": EVIL, "requests": [asked(8)]}]
            return self.json(200, {"node": "evil", "mark": "%x" % int(time.time()), "trails": requests, "questions": True})
        if path == "/cairn/1/questions":
            time.sleep(0.5)
            head = {"Cairn-Trail": "hq.erp", "Cairn-Question": "0f"}
            return self.send(200, "OK", head, b"\x01\x04" + EVIL.encode())
        if name == "hq.erp":
            # It takes what it gets for its own.
            if method == "POST" or Handler.pushed:
                Handler.pushed = True
                parts = path.split("/")
                trail_id = parts[5] if len(parts) > 5 else "07" * 16
                return self.json(200, report(name, trail_id, [asked(1), asked(2)]))
            Handler.pushed = True
            return self.json(404, fault(EVIL))
        if path.count("/") > 4:
            if name == "evil.damaged" and method == "GET":
                return self.send(200, "OK", {"Cairn-End": "\x1b]0;owned\x07:1"}, EVIL.encode() * 500)
            return self.json(500, fault(EVIL))
        if name == "evil.error":
            return self.json(500, fault(EVIL))
        if name == "evil.long":
            return self.json(503, dict(fault(LONG), code="busy"))
        if name == "evil.reason":
            return self.send(507, "Full \x1b]0;owned\x07", {"Server": "\x1b[31mowned\x07"}, b"")
        if name == "evil.text":
            return self.send(200, "OK", {"Content-Type": "text/html"}, LONG.encode())
        if name == "evil.version":
            return self.json(404, fault(EVIL))
        return self.json(200, report(name))

    def json(self, status, what):
        self.send(status, "X", {"Content-Type": "application/json"}, json.dumps(what).encode())

    def send(self, status, reason, headers, body):
        head = "HTTP/1.1 %d %s\r\n" % (status, reason)
        for name, value in headers.items():
            head += "%s: %s\r\n" % (name, value)
        self.wfile.write((head + "Content-Length: %d\r\n\r\n" % len(body)).encode("latin-1") + body)
        self.wfile.flush()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64
    context = None

    def get_request(self):
        connection, address = super().get_request()
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, *_):
        pass


if len(sys.argv) not in (2, 4):
    sys.exit(__doc__.split("\n\n")[1])
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
if len(sys.argv) == 4:
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(sys.argv[2], sys.argv[3])
server.serve_forever()

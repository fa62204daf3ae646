#!/usr/bin/python3
"""A node that others dial, and that says that it has very many trails. None of them ever comes.

    many_trails.py PORT COUNT

It speaks plain HTTP on loopback (docs/reference/protocol.md), holds each request for a trail for a while, and then
refuses it. Exit status: 2 for a wrong command line, else it runs until it is ended.
"""
import http.server
import json
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/cairn":
            self.answer(200, {"node": "evil", "versions": [1]})
        elif path == "/cairn/1/trails":
            self.answer(200, {"node": "evil", "trails": [trail(n) for n in range(COUNT)]})
        else:
            time.sleep(20)
            self.answer(404, {"code": "trail-missing", "message": "not yet"})

    def answer(self, status, what):
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


def trail(n):
    end = {"segment": 1, "offset": 512, "chain": "00" * 32, "position": "00000001:00000000"}
    return {"node": "evil", "trail": "evil.n%d" % n, "id": "07" * 16, "oldest": 1, "end": end, "transaction": 1, "requests": []}


if len(sys.argv) != 3:
    sys.exit(__doc__.split("\n\n")[1])
COUNT = int(sys.argv[2])
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

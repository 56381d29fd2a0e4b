# SPDX-License-Identifier: Apache-2.0
"""What may stand between a process and etcd, for test_etcd.sh. Usage: etcd_proxy.py WHAT [HOST:PORT]

Prints the port where it listens. WHAT it answers:
    page     a page of HTML        nothing   never anything
    other    JSON of someone else  endless   an answer without end
    gateway  502, as a gateway does that has nobody behind it
    compact  what the etcd at HOST:PORT answers, but for the first watch, which begins at revision 1:
             etcd has been compacted since, and cancels it
"""
import http.client
import http.server
import json
import sys
import threading

what = sys.argv[1]
etcd = sys.argv[2] if len(sys.argv) > 2 else None
seen = {"watches": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def handle(self):
        if what == "nothing":
            threading.Event().wait()
        super().handle()

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self, body):
        if self.path == "/v3/watch":
            seen["watches"] += 1
            if seen["watches"] == 1:
                request = json.loads(body)
                request["create_request"]["start_revision"] = "1"
                body = json.dumps(request).encode()
            else:
                print("watches again", flush=True)
        upper = http.client.HTTPConnection(etcd)
        upper.request("POST", self.path, body)
        answer = upper.getresponse()
        self.send_response(answer.status)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while True:
            some = answer.read1(65536)
            if not some:
                break
            if b"compact_revision" in some:
                print("canceled", flush=True)
            self.wfile.write(some)
            self.wfile.flush()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if what == "compact":
            self.forward(body)
        elif what == "page":
            self.answer(b"<html>It works!</html>\n")
        elif what == "gateway":
            self.send_error(502)
        elif what == "other":
            self.answer(b'{"header": "of another kind", "kvs": 7}')
        else:
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"[" * 65536)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
server.handle_error = lambda *args: None  # those who ask may go at any time
print("port", server.server_address[1], flush=True)
server.serve_forever()

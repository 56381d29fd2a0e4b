# SPDX-License-Identifier: Apache-2.0
"""A store that has its faults: stands between a client and an S3 server. s3_proxy.py HOST:PORT WHAT [PID]

Prints "port N", and what it has done when it gets SIGTERM. The first attempt of each request, and of
those that follow it every other one, gets a fault; WHAT says which:
    pass         none                           500, slow    HTTP 500; 503 SlowDown
    pages        503 SlowDown, and lists come in pages of ten keys
    pages        503 SlowDown, and a list comes in pages of 8 keys
    cut          the answer is cut: at byte 0, 1, 2 ... 1023 of it, each in turn
    stop         the request is cut: the connection ends when so many bytes of it have come
    corrupt      one bit of an object's bytes is wrong, of an answer
    shifted      another range of an object than was asked for
    brief        only the first bytes of a range
    rangeless    all of an object in the place of a range, every time
    moved        307, with the same place as Location
    astray       307, with a place where nobody listens as Location
    region       301 until requests are signed for eu-central-1
    skew         the clock is an hour ahead: 403 RequestTimeTooSkewed until requests are
    vanish       after 8 requests there is no such bucket, every time
    denied       403 AccessDenied, every time       key   403 InvalidAccessKeyId, every time
    page         200 and a page of HTML, every time
    stale        403 InvalidAccessKeyId to requests of the key "stale"
    expired      400 ExpiredToken, every time
    lapsed       likewise, to all but questions about the bucket
    headless     403 AccessDenied to HEAD, every time
    joined       the end of an upload in parts answers 200 and InternalError, every time
    lost         the end of an upload in parts is done, but its first answer does not come
    unheard      likewise, but none of its answers comes
    usurped      likewise, and another object of that size has taken its place
    silent       never an answer, every time        down  HTTP 503, every time
    hushed       likewise, to all but questions about the bucket
    begun        likewise, but the begin of an upload in parts is answered
    kill-create, kill-part, kill-complete
                 the server, process PID, is killed when the first request of that phase of an upload in
                 parts has come, that of the second part; the request is not answered
    done-create, done-complete
                 likewise, but when the server has done what was requested
"""
import datetime
import http.client
import http.server
import os
import signal
import sys
import threading

upper, what, *victim = sys.argv[1:]
moment, _, phase = what.partition("-")
EVERY_TIME = ("vanish", "denied", "key", "page", "stale", "expired", "lapsed", "headless", "joined", "silent", "hushed", "begun", "down",
              "region", "skew", "rangeless")
PART = 5 << 20
UNHEARD = ("lost", "unheard", "usurped")
lock = threading.Lock()
tries: dict = {}
checksums: dict = {}
counts = {"requests": 0, "faults": 0, "connections": 0}


def error(code):
    return ("<?xml version='1.0'?><Error><Code>%s</Code><Message>as the test wants it</Message></Error>" % code).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        counts["connections"] += 1

    def log_message(self, *args):
        pass

    def is_faulty(self):
        """Is it this attempt's turn to fail? And the how many-th fault is it?"""
        with lock:
            counts["requests"] += 1
            key = (self.command, self.path, self.headers.get("Range"))
            tries[key] = tries.get(key, 0) + 1
            if what in EVERY_TIME or (moment == what and what not in UNHEARD and tries[key] % 2 == 1):
                counts["faults"] += 1
                return True, counts["faults"] - 1
            return False, 0

    def refuse(self, status, code, **headers):
        body = error(code)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        ahead = 3600 if what == "skew" else 0
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ahead)
        return now.strftime("%a, %d %b %Y %H:%M:%S GMT")

    def is_skewed(self):
        at = datetime.datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(hours=1)
        return abs((at - now).total_seconds()) > 900

    def fault(self):
        """Answer with a fault that needs no answer of the server's. False: there is none."""
        if what == "500":
            self.refuse(500, "InternalError")
        elif what in ("slow", "pages"):
            self.refuse(503, "SlowDown")
        elif what == "page":
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(b"<html>")
        elif what == "down":
            self.refuse(503, "ServiceUnavailable")
        elif what == "denied":
            self.refuse(403, "AccessDenied")
        elif what == "key" or (what == "stale" and "Credential=stale/" in self.headers.get("Authorization", "")):
            self.refuse(403, "InvalidAccessKeyId")
        elif what == "expired" or (what == "lapsed" and "list-type" not in self.path):
            self.refuse(400, "ExpiredToken")
        elif what == "headless" and self.command == "HEAD":
            self.refuse(403, "AccessDenied")
        elif what == "moved":
            self.refuse(307, "TemporaryRedirect", Location="http://%s%s" % (self.headers["Host"], self.path))
        elif what == "astray":
            self.refuse(307, "TemporaryRedirect", Location="http://127.0.0.1:1" + self.path)
        elif what == "region" and "/eu-central-1/s3/" not in self.headers.get("Authorization", ""):
            self.refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-central-1")
        elif what == "skew" and self.is_skewed():
            self.refuse(403, "RequestTimeTooSkewed")
        elif what == "vanish" and counts["requests"] > 8:
            self.refuse(404, "NoSuchBucket")
        elif what == "joined" and self.command == "POST" and "uploadId=" in self.path:
            self.refuse(200, "InternalError")
        elif what == "silent" or (what in ("hushed", "begun") and "list-type" not in self.path and
                                  not (what == "begun" and self.path.endswith("?uploads="))):
            threading.Event().wait(30)
            self.close_connection = True
        else:
            return False
        return True

    def is_last(self, now):
        """Is this the request, and the moment, at which the server is killed? Then it is."""
        begins = {"create": "POST uploads", "part": "PUT partNumber=2&", "complete": "POST uploadId="}.get(phase)
        with lock:
            request = "%s %s" % (self.command, self.path.partition("?")[2])
            if now != moment or not victim or not request.startswith(begins):
                return False
            os.kill(int(victim.pop()), signal.SIGKILL)
            counts["faults"] += 1
        self.close_connection = True
        return True

    def is_unheard(self, headers):
        """Does the answer get lost, that an upload in parts has become an object?"""
        if what not in UNHEARD or self.command != "POST" or "uploadId=" not in self.path:
            return False
        with lock:
            counts["faults"] += 1
            if what == "lost" and counts["faults"] > 1:
                return False
        if what == "usurped":
            self.usurp(self.path.partition("?")[0], headers)
        self.connection.close()
        self.close_connection = True
        return True

    def usurp(self, path, headers):
        connection = http.client.HTTPConnection(upper, timeout=60)
        connection.request("PUT", path, bytes(11 << 20), {"Authorization": headers["Authorization"]})
        connection.getresponse().read()
        connection.close()

    def forward(self):
        faulty, number = self.is_faulty()
        nbytes = int(self.headers.get("Content-Length", "0"))
        if faulty and what == "stop":
            self.rfile.read(min(number % 1024, nbytes))
            self.connection.close()
            self.close_connection = True
            return
        body = self.rfile.read(nbytes)
        if "Range" in self.headers and (what == "rangeless" or (faulty and what in ("shifted", "brief"))):
            brief = self.headers["Range"].partition("-")[0]
            brief += "-%d" % (int(brief.partition("=")[2]) + 999)
            self.headers.replace_header("Range", {"shifted": "bytes=1-%d" % PART, "brief": brief, "rangeless": "bytes=0-"}[what])
        if self.is_last("kill") or (faulty and self.fault()):
            return
        connection = http.client.HTTPConnection(upper, timeout=60)
        pages = "&max-keys=10" if what == "pages" and "list-type" in self.path and "max-keys" not in self.path else ""
        connection.putrequest(self.command, self.path + pages, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        data = answer.read()
        if self.is_last("done") or self.is_unheard(self.headers):
            return
        self.answer(answer, data, faulty, number)
        connection.close()

    def answer(self, answer, body, faulty, number):
        if self.command == "PUT" and "x-amz-checksum-crc32c" in self.headers:
            checksums[self.path] = self.headers["x-amz-checksum-crc32c"]
        length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(body))
        if faulty and what == "corrupt" and self.command == "GET" and "?" not in self.path and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        status = 200 if what == "rangeless" and answer.status == 206 else answer.status
        lines = ["HTTP/1.1 %d %s" % (status, answer.reason)]
        lines += ["%s: %s" % (name, value) for name, value in answer.headers.items()
                  if name.lower() not in ("content-length", "connection", "transfer-encoding", "x-amz-checksum-crc32c")]
        if self.command == "GET" and self.path in checksums:
            lines.append("x-amz-checksum-crc32c: " + checksums[self.path])
        lines += ["Content-Length: %s" % length, "", ""]
        whole = "\r\n".join(lines).encode() + (b"" if self.command == "HEAD" else body)
        if faulty and what == "cut":
            whole = whole[:min(number % 1024, len(whole) - 1)]
            self.close_connection = True
        self.wfile.write(whole)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


def stop(*args):
    print("requests %(requests)d faults %(faults)d connections %(connections)d" % counts, flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
server = Server(("127.0.0.1", 0), Handler)
print("port %d" % server.server_address[1], flush=True)
server.serve_forever()

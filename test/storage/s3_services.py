# SPDX-License-Identifier: Apache-2.0
"""Stands for the services that give credentials to instances (IMDSv2) and to containers. Prints its port.

Of a container, whose token is "token":
    /container   credentials that stay valid
    /hangs       the first ones expire in 240 s; then there is never an answer
    /slow        the first ones have expired; the next ones stay valid, and take 0.5 s
    /asked       how often the two were asked for credentials
"""
import datetime
import http.server
import json
import os
import time

ROLES = "/latest/meta-data/iam/security-credentials/"
n_asked = 0


def credentials(expires="2099-01-01T00:00:00Z"):
    return json.dumps({
        "Code": "Success", "AccessKeyId": os.environ["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": os.environ["AWS_SECRET_ACCESS_KEY"], "Token": "", "Expiration": expires,
    })


def soon(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        if self.path == "/latest/api/token" and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers:
            self.answer(200, "session")
        else:
            self.answer(400)

    def answer_late(self):
        """Credentials that expire, then what is asked again."""
        global n_asked
        n_asked += 1
        if n_asked == 1:
            self.answer(200, credentials(soon(240 if self.path == "/hangs" else -10)))
        elif self.path == "/hangs":
            time.sleep(30)
        else:
            time.sleep(0.5)
            self.answer(200, credentials())

    def do_GET(self):
        global n_asked
        if self.path == "/asked":
            self.answer(200, str(n_asked))
            n_asked = 0
        elif self.path in ("/hangs", "/slow"):
            self.answer_late()
        elif self.path == "/container":
            self.answer(200, credentials()) if self.headers.get("Authorization") == "token" else self.answer(401)
        elif self.headers.get("X-aws-ec2-metadata-token") != "session":
            self.answer(401)
        elif self.path == ROLES:
            self.answer(200, "a-role\n")
        elif self.path == ROLES + "a-role":
            self.answer(200, credentials())
        else:
            self.answer(404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

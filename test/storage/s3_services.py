# SPDX-License-Identifier: Apache-2.0
"""Stands for the services that give credentials to instances (IMDSv2) and to containers. Prints its port."""
import http.server
import json
import os

credentials = json.dumps({
    "Code": "Success", "AccessKeyId": os.environ["AWS_ACCESS_KEY_ID"],
    "SecretAccessKey": os.environ["AWS_SECRET_ACCESS_KEY"], "Token": "", "Expiration": "2099-01-01T00:00:00Z",
})
ROLES = "/latest/meta-data/iam/security-credentials/"


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

    def do_GET(self):
        if self.path == "/container":
            self.answer(200, credentials) if self.headers.get("Authorization") == "token" else self.answer(401)
        elif self.headers.get("X-aws-ec2-metadata-token") != "session":
            self.answer(401)
        elif self.path == ROLES:
            self.answer(200, "a-role\n")
        elif self.path == ROLES + "a-role":
            self.answer(200, credentials)
        else:
            self.answer(404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

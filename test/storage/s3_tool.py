# SPDX-License-Identifier: Apache-2.0
"""What the tests of S3 need beside a server: s3_tool.py WHAT ARGUMENT...

    ports N          print N ports of 127.0.0.1 that nobody has
    wait URL PID     wait until a server has made the bucket of that URL; fails if process PID ends
    empty URL KEY    put an object that has no bytes
    get URL KEY      print an object, by a signature that is made here: 44 if there is none
    whole URL {KEY NBYTES}...   print which objects are there, but are not NBYTES equal bytes
    uploads URL P    print the uploads in parts, of keys that begin with P, which are not over
"""
import datetime
import hashlib
import hmac
import http.client
import os
import random
import re
import socket
import ssl
import sys
import time
import urllib.parse


def ask(method, url, query=""):
    """One signed request without a body: the status and the bytes of the answer."""
    at = urllib.parse.urlsplit(url)
    path = urllib.parse.quote(urllib.parse.unquote(at.path))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": at.netloc, "x-amz-content-sha256": empty, "x-amz-date": date}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, query, *("%s:%s" % (n, headers[n]) for n in sorted(headers)), "", names, empty])
    scope = "%s/us-east-1/s3/aws4_request" % date[:8]
    what = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s" % (
        os.environ["AWS_ACCESS_KEY_ID"], scope, names, hmac.new(key, what.encode(), "sha256").hexdigest())
    if at.scheme == "https":
        context = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"])
        connection = http.client.HTTPSConnection(at.netloc, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection(at.netloc, timeout=10)
    connection.request(method, path + ("?" + query if query else ""), headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def ports(n):
    """Weed's gRPC ports are 10000 above its others."""
    found = []
    while len(found) < n:
        port = random.randrange(12000, 21000)
        try:
            for offset in (0, 10000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        if port not in found:
            found.append(port)
    print(*found)


def wait(url, pid):
    deadline = time.monotonic() + 50
    why = "nothing was tried"
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            status, answer = ask("PUT", url)
            if status == 200 or b"BucketAlreadyOwnedByYou" in answer:
                # Seaweedfs takes objects some seconds after it has made a bucket.
                status, answer = ask("PUT", url + "/probe")
                if status == 200 and ask("DELETE", url + "/probe")[0] in (200, 204):
                    return 0
            why = "%d %s" % (status, answer[:200])
        except ProcessLookupError:
            print("s3_tool.py: the server has ended", file=sys.stderr)
            return 1
        except (OSError, http.client.HTTPException) as error:
            why = str(error)
        time.sleep(0.1)
    print("s3_tool.py: the server does not work: " + why, file=sys.stderr)
    return 1


def whole(url, key, nbytes):
    status, answer = ask("GET", url + "/" + urllib.parse.quote(key))
    if status not in (200, 404):
        print(key, "HTTP", status, answer[:300])
    elif status == 200 and (len(answer) != nbytes or len(set(answer)) != 1):
        print(key, "has", len(answer), "bytes,", len(set(answer)), "of them different")


def main():
    what, *rest = sys.argv[1:]
    if what == "ports":
        ports(int(rest[0]))
    elif what == "wait":
        return wait(rest[0], int(rest[1]))
    elif what == "empty":
        return 0 if ask("PUT", rest[0] + "/" + urllib.parse.quote(rest[1]))[0] == 200 else 1
    elif what == "get":
        status, answer = ask("GET", rest[0] + "/" + urllib.parse.quote(rest[1]))
        if status == 404:
            return 44
        if status != 200:
            print("HTTP %d %s" % (status, answer[:300]), file=sys.stderr)
        sys.stdout.buffer.write(answer)
        return 0 if status == 200 else 1
    elif what == "whole":
        for key, nbytes in zip(rest[1::2], rest[2::2]):
            whole(rest[0], key, int(nbytes))
    elif what == "uploads":
        status, answer = ask("GET", rest[0], "prefix=%s&uploads=" % urllib.parse.quote(rest[1], safe=""))
        print(*re.findall(r"<UploadId>([^<]*)", answer.decode()), end="")
        return 0 if status == 200 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

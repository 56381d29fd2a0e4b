#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Objects of an S3 store that has its faults: errors that are tried again, and those that are not; cuts at
# every byte; credentials from variables, files and services; clocks; an owner that is killed. Usage:
# test_s3.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/object_fail test/mp/object_late examples/kv_transfer
# shellcheck disable=SC2086  # $without is words
set -u
src=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${top_builddir:-$PWD}
[ -e "$build/storage/s3/.libs/nixlrun_s3.so" ] || { echo "1..0 # SKIP the module for S3 is not built"; exit 0; }
if [ -z "${OBJECT_URL-}" ]; then
    [ -x "${S3_TEST_PYTHON:-$build/python}/bin/moto_server" ] ||
        { echo "1..0 # SKIP there is no moto_server; ./quickstart packages check makes it"; exit 0; }
    exec "$src/test/storage/with-s3" moto "$0"
fi
# As a command of its own: "late HOW HOST", two ranks, of which the first, on host a, has the objects; see object_late.c
if [ "${1-}" = late ]; then
    rc=0
    "$build/launcher/nixlrun" --oversubscribe --on-failure continue \
        -n 1 -x NIXLRUN_HOSTID=a "$build/test/mp/object_late" "$2" : \
        -n 1 -x NIXLRUN_HOSTID="$3" "$build/test/mp/object_late" "$2" || rc=$?
    [ "$2:$rc" = late:0 ] || [ "$2:$rc" = killed:137 ]
    exit
fi
. "$src/test/tap.sh"
server=${OBJECT_URL#http://}
server=${server%%/*}
fail=$build/test/mp/object_fail
HOME=$scratch
export HOME

# through WHAT COMMAND...: run it with OBJECT_URL of a proxy with that fault; what the proxy says is in $scratch/proxy
through() {
    fault=$1
    shift
    : >"$scratch/proxy"
    python3 "$src/test/storage/s3_proxy.py" "$server" "$fault" >"$scratch/proxy" 2>&1 </dev/null &
    proxy=$!
    tries=0
    until grep -q '^port' "$scratch/proxy"; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "the proxy does not start:"; cat "$scratch/proxy"; return; }
        sleep 0.02
    done
    port=$(sed -n 's/^port //p' "$scratch/proxy")
    OBJECT_URL=http://127.0.0.1:$port/bucket/$fault passes "$@"
    kill "$proxy"
    wait "$proxy" 2>/dev/null
}

# passes COMMAND...: nothing is printed, or what is wrong
passes() {
    timeout 100 "$@" >"$scratch/out" 2>&1 </dev/null && grep -q 'mptest: passed' "$scratch/out" ||
        cat "$scratch/out"
}

# faults AT_LEAST: so many had the proxy
faults() {
    n=$(sed -n 's/.*faults \([0-9]*\).*/\1/p' "$scratch/proxy")
    [ "${n:-0}" -ge "$1" ] || { echo "only ${n:-no} faults; expected $1:"; cat "$scratch/proxy"; }
}

# ---- what is tried again -----------------------------------------------------------------------------

verdict "$(through 500 "$fail" move 1; faults 128)" "HTTP 500: tried again, and the bytes are right"
verdict "$(through slow "$fail" move 1; faults 128)" "SlowDown: tried again"
verdict "$(through pages "$fail" list; faults 135)" "SlowDown at each page of a list"
verdict "$(through cut "$fail" move 8; faults 1024)" "answers that are cut at each byte of the first KiB"
verdict "$(through stop "$fail" move 8; faults 1024)" "requests that are cut at each byte of the first KiB"
verdict "$(through corrupt "$fail" move 1; faults 128)" "CRC32C: bytes that were changed on the way are got again"
verdict "$(through corrupt "$fail" move 1 md5; faults 128)" "MD5: likewise"
verdict "$(through shifted "$fail" large; faults 3)" "another range than was asked for: it is asked for again"
verdict "$(through brief "$fail" large; faults 3)" "a part of the range, of an object that has all of it: likewise"
verdict "$(through moved "$fail" move 1; faults 128)" "307: the request goes where it is sent"
verdict "$(through astray "$fail" move 1; faults 128)" "307 to a host that is down: the next attempt asks the store again"
verdict "$(through region "$fail" move 1; faults 1)" "301: the region of the bucket is used from then on"
verdict "$(through skew "$fail" move 1; faults 1)" "a clock that is an hour ahead is followed"
verdict "$(through cut "$fail" large; faults 5)" "an object in parts, with cuts"

# ---- what is not -------------------------------------------------------------------------------------

verdict "$(through down env AWS_MAX_ATTEMPTS=2 "$fail" open STORAGE '(2 attempts)')" \
    "a store that is down: the attempts are told"
verdict "$(through page "$fail" open STORAGE 'not as an S3 store does')" \
    "a server of pages is no store"
verdict "$(through key "$fail" open ACCESS 'the credentials are refused')" "an unknown key is refused at the opening"
verdict "$(through expired "$fail" open ACCESS 'the credentials are refused')" \
    "and so is a token that has expired, which is HTTP 400"
verdict "$(through lapsed "$fail" stat ACCESS 'the credentials are refused (HTTP 400 ExpiredToken)')" \
    "one that has expired since then: HEAD, which has no body, is told by a GET"
verdict "$(through denied "$fail" stat ACCESS 'access is denied (HTTP 403 AccessDenied)')" \
    "and so is access that is denied"
verdict "$(through headless "$fail" size; faults 1)" "a store that refuses HEAD, and not GET: the size is known"
verdict "$(python3 "$src/test/storage/s3_tool.py" empty "$OBJECT_URL" headless/0000000000000000
    through headless "$fail" empty; faults 1)" "likewise, also that of an object without bytes"
verdict "$(through rangeless "$fail" part 'at 100: the store does not know ranges')" "a store without ranges"
verdict "$(through vanish "$fail" lost 'no such bucket')" "a bucket that vanishes"
verdict "$(through denied "$fail" lost 'access is denied')" "access that is denied"
verdict "$(through joined env AWS_MAX_ATTEMPTS=2 "$fail" large InternalError
    python3 "$src/test/storage/s3_tool.py" uploads "$OBJECT_URL" joined/
    python3 "$src/test/storage/s3_tool.py" get "$OBJECT_URL" joined/large | head -c 100)" \
    "an upload that fails at its end: no object, and no parts stay"
verdict "$(through lost "$fail" large; faults 2)" "an upload whose end is not answered: tried again, it is there"
verdict "$(through unheard env AWS_MAX_ATTEMPTS=2 "$fail" large; faults 2)" \
    "one whose end is never answered: the object that is there is this one"
verdict "$(through usurped env AWS_MAX_ATTEMPTS=2 "$fail" large 'the object that is there is another one'; faults 2)" \
    "likewise, but it is another one"
verdict "$(OBJECT_URL=http://127.0.0.1:1/bucket AWS_MAX_ATTEMPTS=2 passes "$fail" open STORAGE 'cannot connect')" \
    "nobody listens"
verdict "$(OBJECT_URL=https://$server/bucket AWS_MAX_ATTEMPTS=1 passes "$fail" open STORAGE '')" \
    "a server without TLS"
verdict "$(OBJECT_URL=http://$server/another passes "$fail" open NOT_FOUND 'no such bucket')" "no such bucket"
verdict "$(OBJECT_URL=ftp://$server/x passes "$fail" open INVALID 'allowed: s3://')" "what is no URL of a store"

# ---- a store that does not answer --------------------------------------------------------------------

verdict "$(through hushed "$build/test/mp/object_late" late)" "deadlines and cancel hold, whatever the store does"
verdict "$(through begun "$build/test/mp/object_late" abort)" "closing gives up parts that it cannot have removed"
verdict "$(through hushed sh "$0" late late a)" "and for other ranks of the host"
verdict "$(through hushed sh "$0" late killed a)" "an owner that is killed meanwhile: the others learn it at once"
for transport in tcp ucx ofi; do
    [ -e "$build/src/.libs/nixlrun/nixlrun_$transport.so" ] || continue
    verdict "$(through hushed env NIXLRUN_TRANSPORTS=self,$transport sh "$0" late late b)" "and for another host, by $transport"
done
verdict "$(through hushed env NIXLRUN_TRANSPORTS=self,tcp sh "$0" late killed b)" "an owner of another host that is killed"

# silenced COMMAND...: likewise, with a name server that never answers, which is waited for 20 s. Nobody may do so.
silenced() {
    rc=0
    timeout 15 "$src/test/storage/silent-names" "$@" >"$scratch/out" 2>&1 </dev/null || rc=$?
    [ "$rc" = 77 ] || grep -q 'mptest: passed' "$scratch/out" || { echo "exit code $rc:"; cat "$scratch/out"; }
}
verdict "$(OBJECT_URL=http://store.test/bucket AWS_MAX_ATTEMPTS=1 silenced "$fail" open STORAGE 'no answer')" \
    "a name that is not found: an attempt ends after 5 s"

# ---- credentials -------------------------------------------------------------------------------------

without="env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_REGION"
mkdir "$scratch/.aws"
cat >"$scratch/.aws/credentials" <<TEXT
# a comment
[default]
aws_access_key_id = $AWS_ACCESS_KEY_ID
aws_secret_access_key=$AWS_SECRET_ACCESS_KEY
[broken]
aws_access_key_id = x
TEXT
cat >"$scratch/.aws/config" <<TEXT
[default]
region = us-east-1
[profile other]
region = eu-west-1
aws_access_key_id = $AWS_ACCESS_KEY_ID
aws_secret_access_key = $AWS_SECRET_ACCESS_KEY
endpoint_url = http://$server
s3 =
    addressing_style = path
[profile role]
role_arn = arn:aws:iam::1:role/x
TEXT
verdict "$(passes $without "$fail" move 1)" "~/.aws/credentials"
verdict "$(OBJECT_URL=s3://bucket/x passes $without AWS_PROFILE=other "$fail" move 1)" \
    "AWS_PROFILE, and an endpoint in ~/.aws/config"
verdict "$(passes $without AWS_PROFILE=role "$fail" open ACCESS 'export-credentials')" \
    "a profile with a role says what to do"
verdict "$(passes $without AWS_PROFILE=broken "$fail" open ACCESS 'no aws_secret_access_key')" "half a key"
verdict "$(passes env -u AWS_SECRET_ACCESS_KEY "$fail" open ACCESS 'AWS_SECRET_ACCESS_KEY is not set')" \
    "half a pair of variables"
cat >"$scratch/.aws/config" <<TEXT
[default]
aws_access_key_id = stale
aws_secret_access_key = stale
aws_session_token = stale
TEXT
verdict "$(through stale $without "$fail" move 1)" "a key in both files: that of ~/.aws/credentials"
rm "$scratch/.aws/credentials"
printf '[default]\ncredential_process = false\n' >"$scratch/.aws/config"
verdict "$(passes $without AWS_EC2_METADATA_DISABLED=true "$fail" open ACCESS \
    'profile default has credential_process')" "what the default profile has instead of a key is named"
rm -r "$scratch/.aws"
verdict "$(passes $without AWS_EC2_METADATA_DISABLED=true "$fail" open ACCESS NIXL_OBJECT_ANONYMOUS)" \
    "no credentials at all"
mkfifo "$scratch/services"
python3 "$src/test/storage/s3_services.py" >"$scratch/services" 2>&1 </dev/null &
services=$!
read -r port <"$scratch/services"
verdict "$(passes $without AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:$port" "$fail" move 1)" \
    "the role of an instance, by IMDSv2"
verdict "$(passes $without AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:$port/container" \
    AWS_CONTAINER_AUTHORIZATION_TOKEN=token "$fail" move 1)" "the role of a container"
# asked N: so often was the service asked since the last time
asked() {
    n=$(python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
        "http://127.0.0.1:$port/asked")
    [ "$n" = "$1" ] || echo "asked $n times; expected $1"
}
verdict "$(passes $without AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:$port/hangs" "$fail" move 1; asked 1)" \
    "a role that expires soon, and a service that hangs: nothing waits for it"
verdict "$(passes $without AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:$port/slow" "$fail" move 16; asked 2)" \
    "a role that has expired: requests wait for the next one"
kill "$services"
verdict "$(silenced $without AWS_CONTAINER_CREDENTIALS_FULL_URI=http://roles.test/ "$fail" open ACCESS roles.test)" \
    "a service whose name is not found"

# ---- an owner that is killed -------------------------------------------------------------------------

for delay in 0.3 0.7 1.1; do
    : >"$scratch/killed"
    OBJECT_URL=$OBJECT_URL/killed "$fail" killed >"$scratch/killed" 2>&1 </dev/null &
    killed=$!
    tries=0
    until grep -q begins "$scratch/killed" || [ "$tries" -gt 1000 ]; do tries=$((tries + 1)); sleep 0.02; done
    sleep "$delay" # any moment in its work
    kill -9 "$killed"
    wait "$killed" 2>/dev/null
    # No other case has put these.
    verdict "$(small=000000000000000
        python3 "$src/test/storage/s3_tool.py" whole "$OBJECT_URL/killed" large $((11 << 20)) \
            ${small}0 3000 ${small}1 3000 ${small}2 3000 ${small}3 3000 ${small}4 3000 ${small}5 3000 2>&1)" \
        "killed after $delay s: each object is whole, or not there"
done

# ---- the main job --------------------------------------------------------------------------------------

verdict "$(timeout 100 "$build/launcher/nixlrun" -np 2 "$build/examples/kv_transfer" --requests 2 --layers 4 \
    --tier "$OBJECT_URL" >"$scratch/out" 2>&1 </dev/null
    awk '$1 == "all" { print $(NF - 1), $NF }' "$scratch/out" | grep -qx '32 0' || cat "$scratch/out"
    python3 "$src/test/storage/s3_tool.py" get "$OBJECT_URL" kv_transfer.1/0000000000000000 2>/dev/null | head -c 100)" \
    "kv_transfer: blocks as objects of a decode rank, and none is left"
echo "1..$number"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A store that is killed in each phase of an upload in parts, by SIGKILL, and starts again with what it had: the
# put fails in time and says why, the former object is whole, and what stays of the upload was named. Usage:
# test_s3_killed.sh; finds the trees by top_srcdir and top_builddir. Prints TAP.
# needs: test/mp/object_fail
set -u
src=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${top_builddir:-$PWD}
[ -e "$build/storage/s3/.libs/nixlrun_s3.so" ] || { echo "1..0 # SKIP the module for S3 is not built"; exit 0; }
if [ -z "${OBJECT_URL-}" ]; then
    [ -x "${S3_TEST_PYTHON:-$build/python}/bin/weed" ] ||
        { echo "1..0 # SKIP there is no weed; ./quickstart packages check makes it"; exit 0; }
    exec "$src/test/storage/with-s3" seaweedfs "$0"
fi
. "$src/test/tap.sh"
server=${OBJECT_URL#http://}
server=${server%%/*}
nbytes=$((11 << 20))
pid=$S3_SERVER_PID restarted='' proxy='' crash=''
mkfifo "$scratch/go"

# End what is still there, also after a failure.
leave() {
    for process in $restarted $proxy $crash; do
        kill -9 "$process" && wait "$process"
    done 2>/dev/null
    rm -rf "$scratch"
}
trap leave EXIT

# tool WHAT ARGUMENT...: s3_tool.py, past the proxy
tool() {
    what=$1
    shift
    python3 "$src/test/storage/s3_tool.py" "$what" "$OBJECT_URL" "$@"
}

# appears TEXT FILE: wait until a line begins so; what is there instead, if it does not come
appears() {
    tries=0
    until grep -q "^$1" "$2"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1000 ] || { echo "no line '$1' comes in $2:"; cat "$2"; return 1; }
        sleep 0.05
    done
}

# object KEY VERSION...: it is one of these: the former one, or one whose bytes are all the same letter
object() {
    key=$1
    shift
    tries=0
    until tool get "$key" >"$scratch/object" 2>"$scratch/why"; do # the server may not have found its volumes yet
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "$key cannot be read: $(cat "$scratch/why")"; return; }
        sleep 0.1
    done
    for version; do
        [ "$version" = former ] || head -c "$nbytes" /dev/zero | tr '\0' "$version" >"$scratch/version"
        [ "$version" != former ] || cp "$scratch/former" "$scratch/version"
        ! cmp -s "$scratch/object" "$scratch/version" || return 0
    done
    echo "$key, of $(wc -c <"$scratch/object") bytes, is none of: $*"
}

# uploads KEY UNNAMED: what the store keeps of uploads was named by the owner, but for so many
uploads() {
    unnamed=0
    for upload in $(tool uploads "$1"); do
        grep -q "stay in the store, as upload $upload" "$scratch/crash" || unnamed=$((unnamed + 1))
    done
    [ "$unnamed" -le "$2" ] || { echo "$unnamed uploads stay that were not named:"; cat "$scratch/crash"; }
}

# killed PHASE UNNAMED VERSION...: one life of the store
killed() {
    fault=$1 unnamed=$2
    shift 2
    OBJECT_URL=$OBJECT_URL/$fault "$build/test/mp/object_fail" large >"$scratch/first" 2>&1 </dev/null ||
        { cat "$scratch/first"; return; }
    tool get "$fault/large" >"$scratch/former"
    [ "$(wc -c <"$scratch/former")" -eq "$nbytes" ] || { echo "the former object has other bytes"; return; }
    : >"$scratch/proxy"
    : >"$scratch/crash"
    python3 "$src/test/storage/s3_proxy.py" "$server" "$fault" "$pid" >"$scratch/proxy" 2>&1 </dev/null &
    proxy=$!
    appears port "$scratch/proxy" || return
    OBJECT_URL=http://127.0.0.1:$(sed -n 's/^port //p' "$scratch/proxy")/bucket/$fault AWS_MAX_ATTEMPTS=2 \
        "$build/test/mp/object_fail" crash >"$scratch/crash" 2>&1 <"$scratch/go" &
    crash=$!
    exec 3>"$scratch/go"
    appears failed: "$scratch/crash" || return
    grep -q "^failed: .*$fault/large.*(2 attempts)" "$scratch/crash" || { echo "the error names too little:"; cat "$scratch/crash"; }
    sh "$S3_SERVER_START" &
    restarted=$!
    pid=$restarted
    tool wait "$pid" || return
    object "$fault/large" "$@"
    uploads "$fault/" "$unnamed"
    echo >&3
    exec 3>&-
    wait "$crash" || cat "$scratch/crash"
    crash=
    kill "$proxy"
    wait "$proxy" 2>/dev/null
    proxy=
    object "$fault/large" c
}

for fault in kill-create kill-part kill-complete done-create done-complete; do
    # An upload whose begin was answered into a broken connection has no name here, in either attempt. An end
    # that was done, but not answered, has made the object.
    case $fault in
        done-create) set -- 2 former ;;
        done-complete) set -- 0 former b ;;
        *) set -- 0 former ;;
    esac
    killed "$fault" "$@" >"$scratch/said" 2>&1
    verdict "$(cat "$scratch/said")" "$fault"
    [ ! -s "$scratch/said" ] || break # the processes of this life may be there still
done
echo "1..$number"

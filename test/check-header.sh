#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public header, and each of those that it consists of, compiles alone in each language that it
# promises, so do their initializers, and all of it beside NVIDIA's nixl.h; the library exports exactly the
# functions that they declare. Prints TAP.
set -eu
. "${top_srcdir:-$(dirname "$0")/..}/test/tap.sh"

headers=$(cd "$src/include" && echo nixlrun.h nixlrun/*.h)

# accepted COMPILER LANGUAGE STANDARD: what the compiler says of the unit on stdin.
accepted() {
    # shellcheck disable=SC2086
    $1 -x "$2" -std="$3" -pedantic-errors -Wall -Wextra -Wundef -Werror -I"$src/include" \
        -I"$build/include" -fsyntax-only - 2>&1 || echo "failed"
}

# A unit in which each initializer is used; -Wextra finds fields that one leaves out.
{
    echo '#include <nixlrun.h>'
    cat "$src"/include/nixlrun/*.h | awk '
        /^#define NIXL_[A-Z_]*_INIT / { macro = $2 }
        macro != "" && match($0, /sizeof\(struct [a-z_]*\)/) {
            tag = substr($0, RSTART + 14, RLENGTH - 15)
            print "struct " tag " use_of_" tag "(void);"
            print "struct " tag " use_of_" tag "(void) { struct " tag " fresh = " macro "; return fresh; }"
            macro = ""
        }'
} >"$scratch/initializers"

# compiles COMPILER LANGUAGE STANDARD
compiles() {
    verdict "$(for header in $headers; do
        echo "#include <$header>" | accepted "$@" | sed "s|^|$header: |"
    done
    accepted "$@" <"$scratch/initializers")" \
        "every public header compiles alone as $3, and so do the initializers"
}

echo 1..15
for standard in c99 c11 c17 c2x; do
    compiles "${CC:-cc}" c $standard
done
cxx=$(command -v "${CXX:-g++}" || command -v clang++ || :)
for standard in c++11 c++14 c++17 c++20 c++2b; do
    if [ -n "$cxx" ]; then
        compiles "$cxx" c++ $standard
    else
        number=$((number + 1))
        echo "ok $number - every public header compiles alone as $standard, and so do the initializers # SKIP no C++ compiler"
    fi
done

# What NVIDIA's NIXL declares outside of its classes, written down from its src/api/cpp/nixl_types.h,
# nixl_params.h, nixl_descriptors.h, nixl.h (C++17) and src/api/c/nixl_capi.h as of November 2026.
cat >"$scratch/names.h" <<'TEXT'
#include <string>
class nixlSerDes;
class nixlDlistH;
class nixlBackendH;
class nixlXferReqH;
class nixlAgentData;
class nixlAgent;
class nixlBasicDesc;
class nixlBlobDesc;
struct nixlStrideDesc;
struct nixlRemoteDesc;
struct nixlAgentConfig;
struct nixlAgentOptionalArgs;
struct nixlXferTelemetry;
template <class T> class nixlDescList;
namespace nixlEnumStrings {}
enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };
enum nixl_status_t {
    NIXL_IN_PROG, NIXL_SUCCESS, NIXL_ERR_NOT_POSTED, NIXL_ERR_INVALID_PARAM, NIXL_ERR_BACKEND,
    NIXL_ERR_NOT_FOUND, NIXL_ERR_MISMATCH, NIXL_ERR_NOT_ALLOWED, NIXL_ERR_REPOST_ACTIVE,
    NIXL_ERR_UNKNOWN, NIXL_ERR_NOT_SUPPORTED, NIXL_ERR_REMOTE_DISCONNECT, NIXL_ERR_CANCELED,
    NIXL_ERR_NO_TELEMETRY, NIXL_ERR_XFER_STALLED
};
enum class nixl_thread_sync_t {
    NIXL_THREAD_SYNC_NONE, NIXL_THREAD_SYNC_STRICT, NIXL_THREAD_SYNC_RW, NIXL_THREAD_SYNC_DEFAULT
};
enum class nixl_cost_t { ANALYTICAL_BACKEND };
enum class nixl_api_version : unsigned { V1 = 1 };
constexpr nixl_api_version nixlApiVersionV1 = nixl_api_version::V1;
constexpr int default_comm_port = 8888;
extern const std::string default_metadata_label, default_partial_metadata_label, nixl_null_agent;
struct any;
using nixl_backend_t = any;
using nixl_telemetry_plugin_t = any;
using nixl_blob_t = any;
using nixl_mem_list_t = any;
using nixl_b_params_t = any;
using nixl_notifs_t = any;
using nixl_query_resp_t = any;
using nixl_opt_args_t = any;
using nixl_xfer_telem_t = any;
using nixl_etcd_deletion_callback_t = any;
using nixl_xfer_dlist_t = any;
using nixl_stride_dlist_t = any;
using nixl_reg_dlist_t = any;
using nixl_remote_dlist_t = any;
using nixl_local_dlist_t = any;
using nixlGpuXferReqH = void *;
using nixlMemViewH = void *;
using chrono_point_t = any;
using chrono_period_us_t = any;
using nixl_capi_status_t = any;
#define NIXL_INIT_AGENT ""
#define NIXL_CAPI_EXPORT
#define _NIXL_H
#define _NIXL_TYPES_H
#define _NIXL_PARAMS_H
#define _NIXL_DESCRIPTORS_H
TEXT

# beside HEADER OPTION...: what the compiler says of units that include both, in both orders.
beside() {
    other=$1
    shift
    for order in "$other nixlrun.h" "nixlrun.h $other"; do
        printf '#include <%s>\n#include <%s>\nint use() {
            return nixl_init(NULL) == NIXL_OK ? NIXL_SUCCESS : NIXL_ERR_CANCELED; }\n' $order |
            accepted "$cxx $*" c++ c++17
    done
}

nvidia=
for folder in "${NIXL_PREFIX:-/opt/nvidia/nvda_nixl}/include" /usr/local/nixl/include /usr/local/include /usr/include; do
    if [ -z "$nvidia" ] && [ -e "$folder/nixl.h" ]; then
        nvidia=$folder
    fi
done
if [ -z "$cxx" ]; then
    number=$((number + 2))
    echo "ok $((number - 1)) - no name is one of NVIDIA's NIXL # SKIP no C++ compiler"
    echo "ok $number - nixlrun.h compiles beside NVIDIA's nixl.h # SKIP no C++ compiler"
else
    verdict "$(beside names.h -I"$scratch")" "no name is one of NVIDIA's NIXL"
    if [ -n "$nvidia" ]; then
        verdict "$(beside nixl.h -isystem "$nvidia")" "nixlrun.h compiles beside NVIDIA's nixl.h"
    else
        number=$((number + 1))
        echo "ok $number - nixlrun.h compiles beside NVIDIA's nixl.h # SKIP it is not installed (NIXL_PREFIX)"
    fi
fi

verdict "$(for header in ${headers#nixlrun.h }; do
    grep -qxF "#include <$header>" "$src/include/nixlrun.h" || echo "$header is not included"
done)" "nixlrun.h consists of all headers below nixlrun/"

declared=$(awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1 |
    grep -vxF nixl_note_init | LC_ALL=C sort)
# A function of the name of a struct or enum hides it in C++, and generators of bindings merge the two.
verdict "$({ awk -f "$src/test/prototypes.awk" "$src"/include/nixlrun/*.h | cut -f1
    sed -nE 's/^(struct|enum) (nixl_[a-z_0-9]*)( \{.*|;.*)/\2/p' "$src"/include/nixlrun/*.h | LC_ALL=C sort -u
    } | LC_ALL=C sort | uniq -d | sed 's/$/ is a function and a tag/')" \
    "no function has the name of a struct or enum"

verdict "$( { echo "$declared"; sed -nE 's/^ +(nixl_\w+);$/\1/p' "$src/src/libnixlrun.map"; } | LC_ALL=C sort |
    uniq -u | sed 's/$/ is declared or in src\/libnixlrun.map, but not both/'
    grep -n '\w[*];' "$src/src/libnixlrun.map")" \
    "the version script lists what the header declares"
library=$build/src/.libs/libnixlrun.so
if [ ! -e "$library" ]; then
    echo "ok 15 - the library exports what the header declares # SKIP no shared library was built"
    exit 0
fi
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort)
verdict "$(printf '%s\n%s\n' "$declared" "$exported" | LC_ALL=C sort | uniq -u |
    sed 's/$/ is declared or exported, but not both/')" \
    "the library exports what the header declares"

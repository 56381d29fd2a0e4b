#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What we ask of Vulkan is held against its rules by the validation layers: the unit tests and ranks
# that share memory run under them, and they must have nothing to say. Prints TAP.
# needs: test/mp/device test/unit/vulkan
set -eu
. "${top_srcdir:-$(dirname "$0")/../..}/test/tap.sh"
layer=VK_LAYER_KHRONOS_validation

# watch LEVELS COMMAND...: run it under the layers; what they say is in $scratch/said.
watch() {
    cat >"$scratch/vk_layer_settings.txt" <<TEXT
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = $1
khronos_validation.log_filename = $scratch/said
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
TEXT
    shift
    rm -f "$scratch/said"
    if ! env LP_NUM_THREADS=1 VK_INSTANCE_LAYERS=$layer VK_LAYER_SETTINGS_PATH="$scratch" "$@" \
        >"$scratch/out" 2>&1 </dev/null; then
        echo "'$*' failed"
        cat "$scratch/out"
    fi
}

# silent COMMAND...: the layers say nothing of it.
silent() {
    watch error,warn,perf "$@"
    [ ! -s "$scratch/said" ] || cat "$scratch/said"
}

vulkan=$build/test/unit/vulkan
device=$build/test/mp/device
nixlrun=$build/launcher/nixlrun

"$nixlrun" -np 1 "$device" vulkan 1 >"$scratch/out" 2>&1 </dev/null || [ $? != 77 ] || {
    echo "1..0 # SKIP $(sed -n 's/^mptest: skip: //p' "$scratch/out")"
    exit 0
}
echo 1..4
verdict "$(watch info "$vulkan"
    grep -q 'Validation Layer' "$scratch/said" "$scratch/out" || echo "they say nothing at all")" \
    "the layers are there and look"
verdict "$(silent "$vulkan")" "they have nothing to say of the unit tests"
verdict "$(silent "$nixlrun" -np 2 --oversubscribe "$device" vulkan 3)" \
    "nor of ranks that copy by themselves"
verdict "$(silent env NIXLRUN_VULKAN_COPY=cmd "$nixlrun" -np 2 --oversubscribe "$device" vulkan 3)" \
    "nor of ranks that have the device copy"

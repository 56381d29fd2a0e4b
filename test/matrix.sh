#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The matrix of operation, transport and kind of memory, from the lines of the conformance program in
# what "make check" printed. A line that is cut, so that it names no kind of memory, is no row: it is
# told. Usage: matrix.sh LOG ... The exit code is 1 if there is no such line.
set -eu
cat "$@" | awk '
    BEGIN { split("host cuda vulkan file object", known); for (k in known) is_kind[known[k]] = 1 }

    # Of "conformance segment=cuda np=2 shm+cuda_ipc A=1": sets way and kinds, the two names of a row.
    # Local memory is of the kind in "local=" only for guarantees between kinds. 0: the line is cut.
    function read_job(job, is_between, n, words, i, key, part, near, method, is_registered, is_alone) {
        n = split(job, words, " ")
        part = near = "host"
        method = is_registered = is_alone = way = ""
        for (i = 2; i <= n; i++) {
            key = words[i]
            sub(/=.*/, "", key)
            if (key == "segment") part = substr(words[i], 9)
            if (key == "local" && is_between) near = substr(words[i], 7)
            if (key == "method") method = " " substr(words[i], 8)
            if (words[i] == "registered") is_registered = 1
            if (key == "np") {
                is_alone = words[i] == "np=1"
                way = words[++i]
            }
        }
        if (way == "" || !(part in is_kind) || !(near in is_kind)) return 0
        if (part near == "hosthost") sub(/[+][a-z]*_ipc/, "", way)
        if (!index(job, " hosts=")) sub(/^shm[+]/, "", way)
        if (is_alone) way = "self"
        else if (way == "shm" && part near == "hosthost") way = way (method != "" ? method : " memcpy")
        else if (way == "shm") way = "shm, staged"
        else if (way !~ /_ipc/ && part near != "hosthost") way = way ", staged"
        kinds = near " -> " (is_registered ? "registered" : part)
        note("kind", kind, near)
        note("kind", kind, part)
        is_run[near, part] = 1
        return 1
    }

    function note(list, names, name) {
        if (!((list, name) in seen)) {
            seen[list, name] = 1
            names[++n_names[list]] = name
        }
    }

    /^(PASS|FAIL|SKIP|XPASS|XFAIL): [^ ]+\.mp [0-9]+ - conformance / {
        result = $1
        line = $0
        sub(/^[^ ]+ [^ ]+ [0-9]+ - /, "", line)
        n = split(line, parts, ": ")
        reason = line
        operation = n >= 3 ? parts[2] : "job"
        if (result == "SKIP:") sub(/ # SKIP.*/, "", parts[1])
        if (!read_job(parts[1], sub(/ between kinds$/, "", operation) || result == "SKIP:")) {
            print "matrix: a line is cut, or names no kind of memory: " $0
            next
        }
        note("kinds", all_kinds, kinds)
        note("ways", all_ways, way)
        is_row[kinds, way] = 1
        if (result == "SKIP:") {
            sub(/.*# SKIP /, "", reason)
            skipped[kinds, way] = reason
            next
        }
        note("operations", operations, operation)
        total[kinds, way, operation]++
        passed[kinds, way, operation] += result == "PASS:"
        found++
    }

    END {
        if (!found) {
            print "matrix: no guarantee was looked at"
            exit 1
        }
        print "Operation, transport and kind of memory: guarantees that passed"
        printf "%-20s %-21s", "local -> target", "by"
        for (o = 1; o <= n_names["operations"]; o++) printf " %s", operations[o]
        print ""
        for (k = 1; k <= n_names["kinds"]; k++)
            for (w = 1; w <= n_names["ways"]; w++)
                if ((all_kinds[k], all_ways[w]) in is_row) print_row(all_kinds[k], all_ways[w])
        print "A number: all of so many passed, in all runs together; n/m: n of m passed. -: none is made for"
        print "that: it needs a second rank or threads, looks at memory with the processor, or the operation"
        print "takes host memory only. staged: through host memory. cuda: in make check the stand-in for its"
        print "driver; test/gpu/run is for GPUs. object: files of a directory, written in place; as in a file, no"
        print "word changes there, so atomics and signals are refused."
        missing = ""
        for (k = 1; k <= n_names["kind"]; k++)
            for (w = 1; w <= n_names["kind"]; w++)
                if (!((kind[k], kind[w]) in is_run))
                    missing = missing ", " kind[k] " -> " kind[w]
        if (missing != "") print "Not run: " substr(missing, 3) "."
    }

    function print_row(kinds, way, o, name, cell) {
        printf "%-20s %-21s", kinds, way
        for (o = 1; o <= n_names["operations"]; o++) {
            name = operations[o]
            cell = "-"
            if ((kinds, way, name) in total) {
                cell = total[kinds, way, name]
                if (passed[kinds, way, name] < cell) cell = passed[kinds, way, name] "/" cell
            }
            printf " %" length(name) "s", cell
        }
        print ((kinds, way) in skipped ? "  skipped: " skipped[kinds, way] : "")
    }'

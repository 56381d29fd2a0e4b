# shellcheck shell=bash disable=SC2154,SC2034  # run-mp's variables
# SPDX-License-Identifier: Apache-2.0
# The part of run-mp that puts ranks on several hosts; read by `.`. Uses run-mp's variables.
bed_up=                     # the bed that is up
bed_lock=/run/lock/nixlrun-hosts

on_bed() {
    "$srcdir/test/net/hosts" -b "$bed_up" "$@" 9>&-
}

# are_built TRANSPORTS: or return 77 with a reason in `skip`; a network is what has a local.mk of its own
are_built() {
    local name
    for name in ${1//+/ }; do
        if [[ -e $srcdir/transports/$name/local.mk && ! -e $modules/nixlrun_$name.so ]]; then
            skip="the $name module is not built"
            return 77
        fi
    done
}

# is_alone TRANSPORTS HOSTS: do all ranks share memory?
is_alone() {
    [[ $2 == 1 && +$1+ == *+shm+* ]]
}

# ppn_of NP TRANSPORTS HOSTS: ranks on a host. Ranks that share no memory, or call their host each in a way
# of its own, are each on one of their own.
ppn_of() {
    if [[ +$2+ == *+shm+* && ${key[hostid]} != rank ]]; then echo $((($1 + $3 - 1) / $3)); else echo 1; fi
}

# place NP HOSTS: make `command` one that starts the ranks on hosts
place() {
    local np=$1 n_hosts=$2 ppn=$((($1 + $2 - 1) / $2))
    local -A beds=([ids]=1 [nets]=1 [engine]=1) ids=([host]=1 [same]=1 [rank]=1 [none]=1)
    [[ -v beds[${key[bed]}] ]] || die "$data: bed '${key[bed]}'; allowed: ids, nets or engine"
    [[ -v ids[${key[hostid]}] ]] || die "$data: hostid '${key[hostid]}'; allowed: host, same, rank or none"
    if [[ ${key[bed]} != ids ]]; then
        bring_up "$n_hosts" || return
    fi
    write_rank "$ppn"
    case ${key[bed]} in
    nets)
        # PMIx's server on an address that ranks in other namespaces reach, its data not in files.
        command=(env PMIX_MCA_ptl_base_if_include=eth0 PMIX_MCA_gds=hash "${command[@]}")
        ;;
    engine)
        write_rsh
        command=(env "OMPI_MCA_plm_rsh_agent=$dir/rsh" "${command[@]}"
                 --engine openmpi --host "$(host_list "$np" "$ppn" "$n_hosts")")
        ;;
    esac
    if [[ ${key[bed]} != ids ]]; then
        command=("$srcdir/test/net/hosts" -b "$bed_up" on h0 "${command[@]}")
    fi
    command+=("$dir/rank")
}

# host_list NP PPN HOSTS: as --host takes it
host_list() {
    local i list='' left=$1
    for ((i = 0; i < $3; i++)); do
        list+=${list:+,}h$i:$((left < $2 ? left : $2))
        left=$((left - $2))
    done
    echo "$list"
}

# bring_up HOSTS: make them, or return 77 with a reason in `skip`
bring_up() {
    local tool name=${data##*/}
    skip="hosts made of namespaces need root"
    [[ $(id -u) == 0 ]] || return 77
    for tool in ip nsenter unshare $([[ ${key[bed]} == engine ]] && echo mpirun.openmpi); do
        skip="$tool is not installed"
        type -P "$tool" >/dev/null || return 77
    done
    skip="no namespaces here"
    unshare --net --uts --mount true 2>/dev/null || return 77
    skip=
    # One user of this bed at a time. What runs on the hosts does not inherit the lock.
    name=${name%.mp}
    name=mp${name//[^a-z0-9]/}
    exec 9>"$bed_lock.$name"
    "$srcdir/test/limited" --lock "$bed_lock.$name" 9 || die "the hosts of $name are in use"
    bed_up=$name
    on_bed up -n "$1" -r "${key[rails]}" || die "the hosts of $name do not come up"
    files_of_hosts >"$dir/files"
    set_links
}

# set_links: as the line wants them, or return 77 with a reason in `skip`
set_links() {
    local order rc
    local -a words
    while IFS= read -r -d ';' order; do
        read -ra words <<<"$order"
        [[ ${#words[@]} == 0 ]] && continue
        rc=0
        skip=$(NIXLRUN_TEST_RELAY=$builddir/test/net/relay "$srcdir/test/net/links" -b "$bed_up" \
            "${words[@]}" 2>&1 9>&-) || rc=$?
        [[ $rc == 0 ]] || skip=${skip#links: }
        [[ $rc == 77 ]] && return 77
        [[ $rc == 0 ]] || die "$data: link '$order': $skip"
    done <<<"${key[link]};"
    skip=
}

# The hosts go, and whatever runs on them.
take_down() {
    if [[ -n $bed_up ]]; then
        on_bed down
        bed_up=
        exec 9>&-
    fi
}

# write_rank PPN: the script that each rank begins as. On namespaces that nixlrun knows nothing of it goes
# to its host; there a rank has the host's own temporary files, as on a real one.
write_rank() {
    local enter=
    if [[ ${key[bed]} == nets ]]; then
        enter="$(realpath "$srcdir/test/net/hosts") -b $bed_up on h\$host"
    fi
    {
        echo '#!/bin/bash'
        printf 'export %q\n' "${vars[@]}"
        echo "host=\$((PMIX_RANK / $1))"
        case ${key[hostid]} in
        host) echo 'export NIXLRUN_HOSTID=h$host' ;;
        same) echo 'export NIXLRUN_HOSTID=h' ;;
        rank) echo 'export NIXLRUN_HOSTID=r$PMIX_RANK' ;;
        esac
        if [[ ${key[bed]} != ids ]]; then
            echo 'unset TMPDIR XDG_RUNTIME_DIR'
            echo "export MPT_LINKS='$(realpath "$srcdir/test/net/links") -b $bed_up'"
        fi
        echo "exec $enter \"\$@\""
    } >"$dir/rank"
    chmod +x "$dir/rank"
}

# The agent by which mpirun reaches the other hosts; what it starts there has the job's mark.
write_rsh() {
    cat >"$dir/rsh" <<SCRIPT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec $(realpath "$srcdir/test/net/hosts") -b $bed_up rsh "\$host" "export MPT_JOB=$job; \$*"
SCRIPT
    chmod +x "$dir/rsh"
}

# files_of_hosts: what there is of ours in the hosts' own file systems
files_of_hosts() {
    local host
    for host in $(on_bed list); do
        on_bed on "$host" find /tmp /dev/shm -xdev -name '*nixl*' 2>/dev/null | sed "s/^/$host: /"
    done | sort
}

# leaks_of_hosts: print what the job has left there
leaks_of_hosts() {
    [[ -n $bed_up ]] || return 0
    comm -13 "$dir/files" <(files_of_hosts) | sed 's/^/left: on /'
}

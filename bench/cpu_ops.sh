#!/bin/bash
# Operations on the CPU beside JAX: every model of bench/cpu_ops.net, a row each.
#
#   bench/cpu_ops.sh [--core|--networks] [BUILD [NAME...]]   after `make`; some ten minutes. Results: a table, and JSON
#                                                            lines added to bench/results/cpu_ops.jsonl
#
# The runs of netc and of JAX take turns; each row is the median of ROUNDS (3) of them. PEER_PYTHON: a Python
# with jax (default python3). Run it on a machine that does nothing else.
# --core: CPU time on one core (CORE, default the last), netc and JAX by turns in one process, the least of 25
# (bench/peers/one_core.py); first it is seen that both compute the same. For a machine that does other work, too.
# --networks: the same of bench/cpu_networks.net, losses of small networks with all gradients.
set -u
cd "$(dirname "$0")/.."
. bench/lib.sh
core= what=cpu_ops
case ${1:-} in
--core) core=${CORE:-$(($(nproc) - 1))} peer=(cpu_ops_jax.py --core); shift ;;
--networks) core=${CORE:-$(($(nproc) - 1))} peer=(cpu_networks_jax.py) what=cpu_networks; shift ;;
esac
build=${1:-build} names=("${@:2}")
beside_jax cpu_ops
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(sed -n 's/^model \([a-z_0-9]*\)(.*/\1/p' "bench/$what.net")
if [ -n "$core" ]; then
    [ -n "$py" ] || { echo "this measures beside JAX: set PEER_PYTHON to a Python with jax" >&2; exit 1; }
    hardware="$hardware, one core"
    while read -r name ours jax; do
        record "$name, CPU time" "$ours" us "bench/cpu_ops.sh, $name of bench/$what.net" JAX "$jax_version" "$jax"
    done < <(BUILD=$build taskset -c "$core" "$py" "bench/peers/${peer[0]}" "${peer[@]:1}" "${names[@]}" ||
        : >"$out/failed")
    [ ! -e "$out/failed" ]
    exit
fi
load() { cut -d' ' -f1 /proc/loadavg; }
if ! awk '{ exit !($1 < 0.7) }' /proc/loadavg; then
    echo "note: the load is $(load): times will be worse than on a quiet machine"
    hardware="$hardware, busy"
fi

run() { # NAME REPEATS
    "$netc" bench bench/cpu_ops.net --entry "$1" --device cpu --compiles 0 --repeats "$2" -q --json
}
export -f run
export netc
# Compiled before anything is timed, all cores at it.
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run {} 1' >/dev/null || exit 1

for ((round = 0; round < ${ROUNDS:-3}; round++)); do
    for name in "${names[@]}"; do
        run "$name" 15 |
            sed -n 's/.*: step","value":\([0-9.e+]*\).*/\1/p' >>"$out/$name.ours"
    done
    [ -z "$py" ] || "$py" bench/peers/cpu_ops_jax.py "${names[@]}" >"$out/jax.txt" || exit 1
    for name in "${names[@]}"; do
        [ -z "$py" ] || sed -n "s/^$name //p" "$out/jax.txt" >>"$out/$name.jax"
    done
done
for name in "${names[@]}"; do
    peer=$([ -z "$py" ] || median <"$out/$name.jax")
    record "$name" "$(median <"$out/$name.ours")" us "bench/cpu_ops.sh ($name of bench/cpu_ops.net, --device cpu)" \
        ${peer:+JAX} ${peer:+"$jax_version"} ${peer:+"$peer"}
done

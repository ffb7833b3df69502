#!/usr/bin/env bash
# A cluster on one machine: hosts are network namespaces, links are shaped, Open MPI starts ranks through our own agent.
#   netlab.sh up N RATE          N hosts, links of RATE in each direction (100mbit, 1gbit)
#   netlab.sh rate RATE          the same hosts with another rate
#   netlab.sh run -n P [-by node|slot] [-each K,K,...] [-mca KEY VALUE]... PROGRAM ARGS
#                                P ranks, spread evenly or as in -each; -by node deals them out to hosts in turn, -by slot
#                                fills each host
#   netlab.sh cut HOST | mend HOST    takes a host's link down, and up again
#   netlab.sh pids HOST          processes of one host
#   netlab.sh down               removes everything and ends the processes inside
# Needs root. Exits with 77 where this is impossible, with the reason on stderr. State is in $NETLAB
# (default /tmp/squall-netlab).
set -euo pipefail

lab=${NETLAB:-/tmp/squall-netlab}
prefix=sqlab # of our namespaces
net=10.77.0

unable() { echo "netlab: cannot run here: $*" >&2; exit 77; }
wrong() { echo "netlab: $*" >&2; exit 2; }

check_means() {
  [ "$(id -u)" -eq 0 ] || unable "not root"
  local tool
  for tool in ip tc unshare mount sysctl; do
    command -v "$tool" >/dev/null || unable "no $tool (packages iproute2, util-linux, procps)"
  done
}

hosts() { [ -f "$lab/hosts" ] || wrong "no hosts: netlab.sh up N RATE first"; cat "$lab/hosts"; }

shape() { # both directions: sent by the host, sent to it by the switch
  local rate=$1 name index
  while read -r name _; do
    index=${name#"$prefix"}
    ip netns exec "$name" tc qdisc replace dev e0 root tbf rate "$rate" burst 256kb latency 100ms
    ip netns exec "${prefix}sw" tc qdisc replace dev "v$index" root tbf rate "$rate" burst 256kb latency 100ms
  done < <(hosts)
}

up() {
  local count=$1 rate=$2 index name
  [[ $count =~ ^[1-9][0-9]*$ && $count -le 64 ]] || wrong "hosts: expected 1 to 64, got $count"
  [ -e "$lab/hosts" ] && wrong "a laboratory is up: netlab.sh down first"
  mkdir -p "$lab"
  ip netns add "${prefix}sw" 2>"$lab/why" || unable "no network namespaces: $(cat "$lab/why")"
  trap 'status=$?; [ $status -eq 0 ] || down; exit $status' EXIT
  ip -n "${prefix}sw" link add br0 type bridge forward_delay 0 stp_state 0 2>"$lab/why" ||
    unable "no bridge: $(cat "$lab/why")"
  ip -n "${prefix}sw" link set br0 up
  : >"$lab/hosts"
  for ((index = 0; index < count; index++)); do
    name=$prefix$index
    ip netns add "$name"
    echo "$name $net.$((index + 1))" >>"$lab/hosts"
    ip -n "$name" link set lo up
    ip link add e0 netns "$name" type veth peer name "v$index" netns "${prefix}sw" 2>"$lab/why" ||
      unable "no veth: $(cat "$lab/why")"
    ip -n "$name" addr add "$net.$((index + 1))/24" dev e0
    ip -n "$name" link set e0 up
    # The usual one on clusters. bbr leaves 8 % of a shaped link unused.
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_congestion_control=reno
    ip -n "${prefix}sw" link set "v$index" master br0 up
  done
  shape "$rate" 2>"$lab/why" || unable "no tbf: $(cat "$lab/why")"
  write_agent
}

# Replaces ssh: agent [options] HOST COMMAND. Its own host name, /dev/shm and TMPDIR make it another node to MPI.
write_agent() {
  cat >"$lab/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1; shift
name=\$(awk -v h="\$host" '\$1 == h || \$2 == h {print \$1}' "$lab/hosts")
[ -n "\$name" ] || { echo "netlab: no host \$host" >&2; exit 1; }
mkdir -p "$lab/tmp.\$name" "$lab/shm.\$name"
# If there are enough cores each host has its own, as if it were a machine.
own=()
[ "\$(wc -l <"$lab/hosts")" -gt "\$(nproc --all)" ] || own=(taskset -c "\${name#$prefix}")
mount_shm() { mount -t tmpfs tmpfs /dev/shm; }
export -f mount_shm
exec "\${own[@]}" ip netns exec "\$name" unshare --uts --mount bash -c \
  "hostname \$name; mount_shm; export TMPDIR=$lab/tmp.\$name; \$*"
AGENT
  chmod +x "$lab/agent"
}

run() {
  local ranks='' by=slot each='' extra=()
  while [[ ${1:-} == -* ]]; do
    case $1 in
      -n) ranks=$2; shift 2 ;;
      -by) by=$2; shift 2 ;;
      -each) each=$2; shift 2 ;;
      -mca) extra+=(--mca "$2" "$3"); shift 3 ;;
      *) wrong "run: no option $1" ;;
    esac
  done
  [ $# -gt 0 ] || wrong "run: no program"
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || wrong "run: -n P, a number of ranks"
  [[ $by == node || $by == slot ]] || wrong "run: -by node or -by slot, got $by"
  command -v mpirun >/dev/null || unable "no mpirun (package openmpi-bin)"
  mpirun --version 2>/dev/null | grep -q 'Open MPI' || unable "mpirun is not of Open MPI"
  local count list first program
  count=$(hosts | wc -l)
  if [ -z "$each" ]; then
    [ $((ranks % count)) -eq 0 ] || wrong "run: $ranks ranks do not spread evenly over $count hosts: -each says how else"
    each=$((ranks / count))
  fi
  # The last number applies to all following hosts; a host may have none.
  list=$(hosts | awk -v each="$each" 'BEGIN {n = split(each, k, ",")}
    {i = NR < n ? NR : n; if (k[i] > 0) {printf "%s%s:%d", (some++ ? "," : ""), $2, k[i]}}')
  first=$(hosts | awk 'NR == 1 {print $1}')
  program=$(command -v "$1") || wrong "run: no program $1"
  program=$(readlink -f "$program"); shift
  # Open MPI: TCP between hosts and shared memory inside, nothing that would notice the common kernel.
  local command=(mpirun --allow-run-as-root --oversubscribe --bind-to none --map-by "$by"
    --mca plm_rsh_agent "$lab/agent" --mca plm_rsh_no_tree_spawn 1
    --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24"
    --mca btl 'tcp,vader,self' --mca pml ob1 --mca btl_vader_single_copy_mechanism none
    --mca mpi_yield_when_idle 1 "${extra[@]}" -H "$list" -n "$ranks" "$program" "$@")
  exec "$lab/agent" "$first" "$(printf '%q ' "${command[@]}")"
}

link() {
  local host=$1 state=$2
  hosts | grep -q "^$host " || wrong "no host $host"
  ip -n "${prefix}sw" link set "v${host#"$prefix"}" "$state"
}

down() {
  local name pid
  for name in $(ip netns list 2>/dev/null | awk '{print $1}' | grep "^$prefix" || true); do
    for pid in $(ip netns pids "$name" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$name"
  done
  rm -rf "$lab"
}

[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
check_means
case $1 in
  up) [ $# -eq 3 ] || wrong "up N RATE"; up "$2" "$3" ;;
  rate) [ $# -eq 2 ] || wrong "rate RATE"; shape "$2" ;;
  run) shift; run "$@" ;;
  cut) link "$2" down ;;
  mend) link "$2" up ;;
  pids) ip netns pids "$2" ;;
  down) down ;;
  *) wrong "no command $1" ;;
esac

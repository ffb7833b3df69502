#!/usr/bin/env bash
# Breaks a training on four ranks in many ways: a table of faults, the time to notice them, and the outcome.
# usage: validation/faults.sh OUT [ROWS [SECONDS]]
#   OUT       a folder for the runs
#   ROWS      an extended regular expression that selects events (default all)
#   SECONDS   how long a rank waits for another before it ends the job (default 6; more on a busy machine)
# Needs root for the cut link, the killed host and the full disk; without it those rows say why they are missing.
# SQUALL_OTHER is a program built from other sources, for the row with another version; without it that row says so.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
rows=${2:-.} stall=${3:-6}
cd "$(dirname "$0")/.."
netlab=$PWD/validation/netlab.sh
. validation/program.sh
cd "$out"

supervisor='' run=''
clean() {
  local process
  for process in $supervisor $run; do kill "$process" 2>/dev/null || true; done
  "$netlab" down 2>/dev/null || true
  ! mountpoint -q "$out/disk" || umount -l "$out/disk"
}
trap clean EXIT

# Each command keeps complete output; the folder's existence alone may mean half of it.
make_store() { # NAME SEED
  "$squall" -q simulate --out "run-$1" --grid 32x64 --days 20 --hours 6 --seed "$2"
  "$squall" -q label "run-$1" --out "labels-$1"
  "$squall" -q stage "run-$1" --labels "labels-$1" --out "$1"
}
make_store store 5
make_store other 6

settings=(--set distributed.global_batch=4 --set training.steps=400 --set training.validate_every_steps=100
  --set training.checkpoint_every_steps=20 --set distributed.check_every_steps=50 --set network.width=0.1
  --set "distributed.stall_seconds=$stall")
train=("$squall" -q train --recipe small "${settings[@]}")
table=$out/faults.md
printf '| event | seen after | outcome |\n|---|---|---|\n' | tee "$table"
wanted() { grep -qE -- "$rows" <<<"$1"; }
row() { ! wanted "$1" || printf '| %s | %s | %s |\n' "$1" "$2" "$3" | tee -a "$table"; }

# The first sentence of an error in a log.
said() { grep -hoE '(error|ERROR)[: ].*' "$1" | sed -E 's/^((error|ERROR)[: ]+)+//; s#'"$out"'/##g; s/\|/,/g' | grep -v '^another rank failed' | head -1 || true; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.1f s", b - a}'; }
starts() { grep -cE 'starting (mpirun|/)' "$1" || true; } # not "starting it again"
# Prints FAILED unless the exit code is that of a diagnosed error.
verdict() { case $1 in 2 | 3 | 4 | 5) ;; *) echo "FAILED: " ;; esac; }
# Prints FAILED unless a run ended well and logged something.
went_on() { [ "$1" = 0 ] && [ -n "$2" ] || echo "FAILED: "; }
ranks_of() { pgrep -f "^$squall -q train .*--out $out/$1( |\$)" || true; }
stray() { for process in $(ranks_of "$1"); do kill -9 "$process" || true; done; }
wait_for() { # FILE SECONDS: until it exists and is not empty
  local tries=$((10 * $2))
  while [ ! -s "$1" ]; do sleep 0.1; ((tries-- > 0)) || { echo "faults: no $1" >&2; exit 1; }; done
}
same_bits() { # RUN: whether it equals the undisturbed run
  if cmp -s "$alone/last.safetensors" "$1/last.safetensors" && cmp -s "$alone/metrics.jsonl" "$1/metrics.jsonl"; then
    echo "the same bits as a run left alone"
  else
    echo "OTHER BITS"
  fi
}

# NAME COMMAND...: an undisturbed run to compare the following with; made once per program.
left_alone() {
  local program
  alone=$1; shift
  program=$(stat -c '%n of %y' "$squall")
  [ "$(cat "$alone/by" 2>/dev/null)" != "$program" ] || return 0
  rm -rf "$alone"
  "$@" --out "$out/$alone" >"$alone.log" 2>&1
  echo "$program" >"$alone/by"
}
left_alone alone mpirun -n 4 "${train[@]}" --data store

refused() { # EVENT COMMAND...
  local event=$1 started code=0; shift
  wanted "$event" || return 0
  rm -rf refused; started=$(now)
  timeout 120 "$@" >refused.log 2>&1 || code=$?
  row "$event" "$(since "$started") from the start" "$(verdict $code)exit $code: $(said refused.log)"
}
# FIRST... : SECOND...: what each of two ranks runs; Open MPI and MPICH name the rank's number differently. (The mpirun of
# Debian 13 crashes with several programs.)
either=(mpirun -n 2 bash -c 'first=()
  while [ "$1" != : ]; do first+=("$1"); shift; done; shift
  [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 0 ] || set -- "${first[@]}"
  exec "$@"' bash)
one=("${train[@]}" --out refused)
refused "a rank with another recipe" "${either[@]}" "${one[@]}" --data store : "${one[@]}" --data store --set seed=2
refused "a rank with other data" "${either[@]}" "${one[@]}" --data store : "${one[@]}" --data other
refused "more leaders than ranks of a node" mpirun -n 4 "${train[@]}" --out refused --data store \
  --set distributed.algorithm=hierarchical --set distributed.leaders=5
if [ -n "${SQUALL_OTHER:-}" ]; then
  refused "a rank of another version of the program" "${either[@]}" "${one[@]}" --data store : \
    "$(realpath "$SQUALL_OTHER")" "${one[@]:1}" --data store
else
  row "a rank of another version of the program" "-" "not tried: SQUALL_OTHER names no program"
fi
refused "a batch that ranks do not divide" mpirun -n 3 "${train[@]}" --out refused --data store

# EVENT DO: a supervised run; DO breaks it once, when its first checkpoint exists.
supervised() {
  local event=$1 run=$2 started seen; shift 2
  wanted "$event" || return 0
  rm -rf "$run"
  "$squall" supervise --tries 5 --pause 0.5 -- "${launch[@]}" "${train[@]}" --data "$out/store" --out "$out/$run" >"$run.log" 2>&1 &
  supervisor=$!
  wait_for "$run/checkpoint.previous.safetensors" 120
  started=$(now)
  "$@"
  until grep -q 'starting it again' "$run.log" || ! kill -0 "$supervisor" 2>/dev/null; do sleep 0.05; done
  seen=$(since "$started")
  wait "$supervisor" || { row "$event" "$seen" "FAILED: $(said "$run.log")"; return; }
  if [ "$(starts "$run.log")" -lt 2 ]; then seen="FAILED: not at all"; fi
  local words
  words=$(said "$run.log")
  row "$event" "$seen" "${words:-the launcher ends the job}; $(starts "$run.log") starts, then $(same_bits "$run")"
}
launch=(mpirun -n 4)
kill_one() { kill "-$1" "$(ranks_of "$2" | sed -n 3p)" || true; }
supervised "a killed rank (kill -9)" killed kill_one KILL killed
supervised "a stopped rank (SIGSTOP; limit $stall s)" stopped kill_one STOP stopped
stray stopped

# NAME SETTINGS...: trainings with other settings, and the undisturbed one to compare them with.
with_settings() {
  local name=alone-$1; shift
  train=("$squall" -q train --recipe small "${settings[@]}" "$@")
  left_alone "$name" mpirun -n 4 "${train[@]}" --data store
}
event="a stopped rank, where 4 share the statistics of batch normalisation"
if wanted "$event"; then
  with_settings norms --set distributed.norm_ranks=4
  supervised "$event" stopped_norms kill_one STOP stopped_norms
  stray stopped_norms
fi
# Most of the time is spent in validations, but chance decides what is stopped; the message says what it was.
event="a stopped rank while validating"
if wanted "$event"; then
  with_settings validations --set training.steps=60 --set training.validate_every_steps=1
  for try in 1 2 3 4 5 6; do
    cp "$table" before.md
    supervised "$event" stopped_validating kill_one STOP stopped_validating
    stray stopped_validating
    ! tail -1 "$table" | grep -q 'validation: ' || break
    # It was stopped elsewhere: try again.
    cp before.md "$table"
    [ "$try" -lt 6 ] || row "$event" "-" "FAILED: not one of six tries stopped a rank in a validation"
  done
fi
# Groups wait for their turn at the server, which is rank 0, without a limit while it lives.
event="a stopped parameter server of three groups (SIGSTOP; limit $stall s)"
if wanted "$event"; then
  with_settings servers --set distributed.groups=3 --set distributed.order=round-robin
  stop_first() { kill -STOP "$(ranks_of stopped_server | sed -n 1p)" || true; }
  supervised "$event" stopped_server stop_first
  stray stopped_server
fi
train=("$squall" -q train --recipe small "${settings[@]}")
alone=alone

# EVENT SIGNAL CODE RUN COMMAND...: a run whose launcher gets a signal and must exit with a CODE of this pattern, and the
# same command again.
signalled() {
  local event=$1 signal=$2 due=$3 run=$4 started seen code=0 kept; shift 4
  wanted "$event" || return 0
  rm -rf "$run"
  "$@" "${train[@]}" --data "$out/store" --out "$out/$run" >"$run.log" 2>&1 &
  local process=$!
  wait_for "$run/checkpoint.previous.safetensors" 120
  started=$(now)
  kill "-$signal" "$process"
  wait "$process" || code=$?
  seen=$(since "$started")
  kept=$(grep -cE 'error: interrupted' "$run.log" || true)
  "$@" "${train[@]}" --data "$out/store" --out "$out/$run" >>"$run.log" 2>&1 || { row "$event" "$seen" "FAILED: $(said "$run.log")"; return; }
  # All ranks end in the same way: the first reports it for all, unless its launcher killed it before.
  [ "$kept" -le 1 ] || { row "$event" "$seen" "FAILED: $kept of 4 ranks say that they were interrupted"; return; }
  row "$event" "$seen" "$([[ $code == $due ]] || echo "FAILED: not $due but ")exit $code, told by $kept of 4 ranks; the same command again ends with $(same_bits "$run")"
}
signalled "SIGUSR1 to mpirun" USR1 75 told mpirun -n 4
signalled "SIGTERM to mpirun, which kills ranks 2 s later" TERM '[!0]*' ended mpirun -n 4
signalled "SIGTERM to squall supervise -- mpirun" TERM 75 ended_gently "$squall" supervise --tries 5 --pause 0.5 -- mpirun -n 4

truncate_newest() {
  local rank
  for rank in $(ranks_of truncated); do kill -9 "$rank" || true; done
  truncate -s 1000 truncated/checkpoint.safetensors
}
supervised "killed, and the newest checkpoint cut short" truncated truncate_newest

# One megabyte of shared memory, as in some containers: ranks send messages instead.
if ! wanted "1 MB of /dev/shm"; then
  :
elif [ "$(id -u)" -eq 0 ] && unshare --mount mount -t tmpfs -o size=1m tmpfs /dev/shm 2>/dev/null; then
  rm -rf little; code=0
  unshare --mount bash -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"' - mpirun -n 4 --mca btl tcp,self \
    "$squall" train --recipe small "${settings[@]}" --data store --out little >little.log 2>&1 || code=$?
  words=$(grep -oE 'the 4 ranks of a node cannot share.*' little.log | head -1 || true)
  row "1 MB of /dev/shm" "at the start" "$(went_on $code "$words")exit $code: $words"
else
  row "1 MB of /dev/shm" "-" "not tried: no tmpfs can be mounted here"
fi

if ! wanted "a full disk at a checkpoint"; then
  :
elif [ "$(id -u)" -eq 0 ] && mkdir -p disk && mount -t tmpfs -o size=600k tmpfs disk 2>/dev/null; then
  started=$(now) code=0
  timeout 120 mpirun -n 4 "${train[@]}" --data store --out disk/run >full.log 2>&1 || code=$?
  seen=$(since "$started")
  message=$(said full.log)
  mount -o remount,size=64m disk
  mpirun -n 4 "${train[@]}" --data store --out disk/run >>full.log 2>&1
  rm -rf full; cp -r disk/run full; umount disk
  row "a full disk at a checkpoint" "$seen from the start" "$(verdict $code)exit $code: $message; with room, the same command ends with $(same_bits full)"
else
  row "a full disk at a checkpoint" "-" "not tried: no tmpfs can be mounted here"
fi

if wanted "hosts with 2, 1 and 1 ranks" || wanted "the same, with distributed.algorithm=hierarchical" || wanted "a link cut" ||
  wanted "a killed host"; then
  "$netlab" down 2>/dev/null || true
  lab=yes
  "$netlab" up 4 1gbit 2>lab.log || { lab=; row "a link cut, a killed host" "-" "not tried: $(tail -1 lab.log)"; }
else
  lab=
fi
if [ -n "$lab" ]; then
  launch=("$netlab" run -n 4)
  uneven=("$netlab" run -n 4 -each 2,1,1,0)
  if wanted "hosts with 2, 1 and 1 ranks"; then
    code=0
    rm -rf uneven
    "${uneven[@]}" "$squall" train --recipe small "${settings[@]}" --data "$out/store" --out "$out/uneven" >uneven.log 2>&1 || code=$?
    words=$(grep -oE 'gradients are summed without.*' uneven.log | head -1 || true)
    row "hosts with 2, 1 and 1 ranks" "at the start" "$(went_on $code "$words")exit $code: $words"
  fi
  refused "the same, with distributed.algorithm=hierarchical" "${uneven[@]}" "${train[@]}" --data "$out/store" \
    --out "$out/refused" --set distributed.algorithm=hierarchical
  # Sums between hosts have another order than inside one host.
  left_alone alone-lab "${launch[@]}" "${train[@]}" --data "$out/store"
  if wanted "a link cut for 3 s"; then
    pulse() { "$netlab" cut sqlab2; sleep 3; "$netlab" mend sqlab2; }
    rm -rf pulse
    "${launch[@]}" "${train[@]}" --data "$out/store" --out "$out/pulse" >pulse.log 2>&1 &
    run=$!
    wait_for pulse/checkpoint.safetensors 120
    pulse
    if wait "$run"; then
      row "a link cut for 3 s" "not at all" "the run waits and goes on, to $(same_bits pulse)"
    else
      row "a link cut for 3 s" "-" "FAILED: $(said pulse.log)"
    fi
  fi
  cut() { "$netlab" cut sqlab2; ( sleep $((stall + 6)); "$netlab" mend sqlab2 ) & }
  supervised "a link cut for $((stall + 6)) s (limit $stall s)" cut cut
  kill_host() { for process in $("$netlab" pids sqlab3); do kill -9 "$process" 2>/dev/null || true; done; }
  supervised "a killed host" host kill_host
fi
! grep -qE 'FAILED|OTHER BITS' "$table"

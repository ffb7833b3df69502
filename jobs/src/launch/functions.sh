say() {
    printf 'squall job: %s\n' "$*" >&2
}

# The last step in the metrics of the run. A crash may leave steps there that are done again later, so that only an
# equal step says that nothing came of a job.
newest_step() {
    if [ -r "$run_folder/metrics.jsonl" ]; then
        tail -n 1 "$run_folder/metrics.jsonl" | sed -n 's/.*"step":\([0-9]*\).*/\1/p'
    fi
}

# SIGUSR1 makes all ranks save and leave with 75; launchers do not give them the time to after SIGTERM.
child=
told=
heard=
ended=
trap 'told=yes; heard=yes; if [ -n "$child" ]; then kill -USR1 "$child" 2>/dev/null; fi' USR1 USR2
# Somebody ends the job, who does not want it to come back.
trap 'ended=yes; kill -USR1 $$' TERM INT HUP

# Runs a command, which signals reach; gives its exit code.
run() {
    local code=127 now
    if [ -n "$told" ]; then
        return 75
    fi
    "$@" &
    child=$!
    if [ -n "$told" ]; then
        kill -USR1 "$child" 2>/dev/null
    fi
    while true; do
        heard=
        wait "$child"
        now=$?
        # Without a child, the code was there before the signal.
        if [ "$now" -ne 127 ]; then
            code=$now
        fi
        if [ "$now" -eq 127 ] || [ -z "$heard" ]; then
            break
        fi
    done
    child=
    return "$code"
}

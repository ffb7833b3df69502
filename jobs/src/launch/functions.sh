say() {
    printf 'squall job: %s\n' "$*" >&2
}

# The step of the newest checkpoint, in whose first bytes it is. The metrics also have steps that were done and never
# saved: a job that loses its work each time would seem to advance.
newest_step() {
    local file step
    for file in "$run_folder"/checkpoint{,.previous}.safetensors; do
        if [ -r "$file" ]; then
            step=$(head -c 4096 "$file" | tr -d '\\\000' | LC_ALL=C grep -ao '"progress":{"step":[0-9]*' | head -n 1 | tr -cd 0-9)
            # Of a damaged one the training goes on from the one before.
            if [ -n "$step" ]; then
                printf '%s' "$step"
                return
            fi
        fi
    done
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

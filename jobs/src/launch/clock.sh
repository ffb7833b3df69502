# The batch system sends nothing that leaves time to save, so the script does: `timeout` sends SIGUSR1 after these.
seconds_left() {
    local left=$((stop_at - $(date +%s)))
    echo $((left > 1 ? left : 1))
}

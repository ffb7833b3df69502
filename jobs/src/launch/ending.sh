# Launchers have ended with 0 without a start of the ranks: training says itself that it is done.
if [ "$code" -eq 0 ]; then
    if grep -q '"finished"' "$summary"; then
        cat "$summary"
        exit 0
    fi
    say 'the launcher ended with 0 although training did not say that it is done'
    code=75
fi
# A launcher may end the last ranks when the first has left, and give their signal as its code. Where `timeout` keeps the
# clock this script is not told: it signals what it runs.
if [ "$code" -gt 128 ] && { [ -n "$told" ] || [ "$(date +%s)" -ge "$stop_at" ]; }; then
    code=75
fi
# 75 says that the state is saved and the run is not done; everything else is the end.
if [ "$code" -ne 75 ]; then
    exit "$code"
fi
after=$(newest_step)
if [ -n "$ended" ]; then
    say "told to end at step ${after:-0}; the same job goes on from there when it is submitted again"
    exit "$code_when_ended"
fi
if [ "${after:-0}" -le "${before:-0}" ]; then
    say "nothing beyond step ${before:-0} is saved after a whole job, so it is not run again: ask for more hours"
    exit 4
fi
say "at step ${after:-0}, after ${before:-0} when the job began: not done"
run_again

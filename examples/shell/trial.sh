#!/bin/sh
# A trial in plain shell. It finds its parameters in $NNI_SYS_DIR/parameter.cfg, a line of JSON, and reports by
# appending frames to $NNI_SYS_DIR/.nni/metrics: ME, six digits of length, then that many bytes of JSON with a
# newline at the end.
set -eu
export LC_ALL=C # so that lengths are bytes

field() { # name: the number or word after it in parameter.cfg
    sed -n 's/.*"'"$1"'": *"\{0,1\}\([a-z0-9]*\).*/\1/p' "$NNI_SYS_DIR/parameter.cfg"
}

report() { # type sequence value
    payload=$(printf '{"parameter_id": %s, "trial_job_id": "%s", "type": "%s", "sequence": %d, "value": "%s"}' \
        "$parameter_id" "$NNI_TRIAL_JOB_ID" "$1" "$2" "$3")
    printf 'ME%06d%s\n' $((${#payload} + 1)) "$payload" >>"$NNI_SYS_DIR/.nni/metrics"
}

parameter_id=$(field parameter_id)
level=$(field level)
if [ "$(field sorted)" = yes ]; then order=sort; else order=cat; fi

# The cost of a pass: kilobytes that are left, and milliseconds that it took.
cost=0
for pass in 0 1 2 3 4; do
    begun=$(date +%s%N)
    bytes=$(seq $((pass + 1)) 7 400000 | "$order" | gzip "-$level" | wc -c)
    cost=$((cost + bytes / 1024 + ($(date +%s%N) - begun) / 1000000))
    report PERIODICAL "$pass" $((cost / (pass + 1)))
done
report FINAL 0 $((cost / 5))

#!/bin/sh
# Runs envcheck doctor every INTERVAL_S seconds. Files are replaced whole, so that no reader sees half of one.
result=${RESULT_DIR:-/run/envcheck} metrics=${METRICS_DIR:-/metrics} features=${FEATURES_DIR:-/features}
here=$(dirname "$0")
while :; do
  envcheck doctor ${DOCTOR_OPTIONS:-} --json -o "$metrics/envcheck.prom" > "$result/doctor.new" 2> "$result/errors"
  code=$?
  mv "$result/doctor.new" "$result/doctor.json"
  python3 "$here/node_labels.py" "$result/doctor.json" "$metrics/envcheck.prom" > "$features/.envcheck.new" 2>> "$result/errors" \
    && mv "$features/.envcheck.new" "$features/envcheck"
  worst=$(python3 "$here/node_labels.py" --worst "$result/doctor.json" 2>> "$result/errors")
  printf '%s\n%s\n' "$code" "${worst:-no result}" > "$result/state.new" && mv "$result/state.new" "$result/state"
  [ -z "${ONCE:-}" ] || exit 0
  sleep "${INTERVAL_S:-300}"
done

#!/bin/sh
# node-problem-detector's contract: exit code 0 is healthy, 1 a problem, others unknown; the output is the message.
state=${RESULT_DIR:-/run/envcheck}/state
if [ ! -r "$state" ]; then
  echo "envcheck has not checked this node yet"
  exit 2
fi
age=$(($(date +%s) - $(date -r "$state" +%s)))
if [ "$age" -gt "${OLDEST_S:-1800}" ]; then
  echo "the last check is $age s old"
  exit 2
fi
{ read -r code; read -r message; } < "$state"
printf '%.80s\n' "$message"
case $code in
  0) exit 0 ;;
  1) exit 1 ;;
  *) exit 2 ;;
esac

# keep.sh RUNNER USERS MARKER FOLDER COMMAND...: runs a process that several tests share, and ends it when the test runner
# has ended or when no test has held the file USERS for a while. MARKER names the process while tests may attach to it.
set -u
runner=$1 users=$2 marker=$3 folder=$4
shift 4

"$@" >"$folder/stdout" 2>"$folder/stderr" &
child=$!
echo "$child $folder" >"$marker.new"
mv "$marker.new" "$marker"

idle=0
while kill -0 "$runner" 2>/dev/null && kill -0 "$child" 2>/dev/null; do
    sleep 1
    if flock --nonblock --exclusive "$users" true; then idle=$((idle + 1)); else idle=0; fi
    if [ "$idle" -ge 15 ]; then
        exec 9<"$users"
        # Holding the lock until the marker is gone keeps a test from attaching meanwhile.
        if flock --nonblock --exclusive 9; then break; fi
        exec 9<&-
        idle=0
    fi
done
rm -f "$marker"
exec 9<&-
kill "$child" 2>/dev/null
wait "$child"

#!/usr/bin/env bash
# Apptainer for tests/installers/containers/test_apptainer.py: apptainer-package.sh FOLDER, then put FOLDER/bin on PATH.
# Debian has it in sid only, for a newer libc than stable's: a sid of its own (260 MB, a minute), which this machine's
# folders are mounted into for each command, in a namespace of its own.  Nothing of this machine changes.  Needs root.
set -euo pipefail
folder=$(realpath -m -- "$1")
root=$folder/sid
archive='s/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]+).*/\3/p' # the one of this machine
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null | sed -nE "$archive" | head -1 || :)
mkdir -p "$folder/bin"
mmdebstrap --quiet --variant=apt --include=apptainer,squashfuse --aptopt='Acquire::Check-Valid-Until "false"' \
    sid "$root" ${mirror:+"$mirror"}
touch "$root/etc/hosts"
cp -L /etc/localtime "$root/etc/localtime" 2>/dev/null || :
echo root:0:65536 | tee "$root/etc/subuid" >"$root/etc/subgid"
# A user namespace, as ordinary users have it: root may lack a capability on this machine, which Apptainer refuses.
cat >"$folder/bin/apptainer" <<EOF
#!/bin/sh
export HERE="\$PWD"
exec unshare --mount --propagation slave sh -c 'cd $root && mount --bind . . && cd $root || exit
for path in /*; do
    name=\${path#/}
    case \$name in usr | bin | sbin | lib* | etc | var | boot | lost+found) continue ;; esac # those of sid
    if [ -d /\$name ]; then mkdir -p \$name && mount --rbind /\$name \$name; fi
done
mkdir -p .old && pivot_root . .old && cd "\$HERE" || exit
exec unshare --user --map-users=0:0:65536 --map-groups=0:0:65536 /usr/bin/apptainer "\$@"' sh "\$@"
EOF
chmod 755 "$folder/bin/apptainer"

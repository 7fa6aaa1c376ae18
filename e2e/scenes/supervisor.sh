# Kills the supervisors of this page's sandboxes: those that run its program.
for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/exe")" -ef "$(command -v whatif)" ] && tr '\0' ' ' < "$process/cmdline" 2>/dev/null | grep -q '^[^ ]* supervisor '; then
        kill -9 "${process#/proc/}"
    fi
done
sleep 1

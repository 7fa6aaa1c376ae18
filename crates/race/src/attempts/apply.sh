# Applies the patch that is standard input, all of it or nothing.
work=$(mktemp "${TMPDIR:-/tmp}/whatif-patch.XXXXXX") || exit 1
trap 'rm -f "$work"' EXIT
trap 'exit 1' HUP INT TERM
cat > "$work" || exit 1

if command -v git > /dev/null 2>&1; then
    # Whoever runs this may be in the middle of work on another repository.
    unset $(git rev-parse --local-env-vars)
    apply() { git apply --whitespace=nowarn "$@" "$work"; }
    top=$(git rev-parse --show-toplevel 2> /dev/null)
    here=$(git rev-parse --show-prefix 2> /dev/null)
    if [ -n "$here" ]; then
        # A repository that has nothing of this directory, such as a home, is not what the patch was made for.
        if [ -z "$(git ls-files | head -n 1)" ]; then is_part=no; else is_part=yes; fi
        cd "$top" || exit 1
        # Names in a patch count from the top of the repository. Below it, git would leave out silently what lies elsewhere.
        if [ $is_part = no ] || { ! apply --check && apply --check --directory="$here"; } 2> /dev/null; then
            apply --directory="$here"
            exit
        fi
    fi
    apply
elif command -v patch > /dev/null 2>&1; then
    # It guesses, asks and leaves half of it done, unless it is told not to.
    case $(patch --version 2> /dev/null) in
        *GNU*) set -- -p1 -f -F0 --no-backup-if-mismatch -r - -i "$work" ;;
        *) set -- -p1 -N -i "$work" ;;
    esac
    said=$(patch --dry-run "$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
    patch "$@"
else
    echo 'a patch needs git or patch, and neither is installed' >&2
    exit 127
fi

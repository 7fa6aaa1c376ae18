# Takes the commit back in the work tree. Neither the index nor the history is touched, so that a dirty tree is fine.
command -v git > /dev/null 2>&1 || { echo 'to take a commit back, git is needed' >&2; exit 127; }
unset $(git rev-parse --local-env-vars)
top=$(git rev-parse --show-toplevel) && cd "$top" || exit 1
commit=$(git rev-parse --quiet --verify "$1^{commit}") || { echo "there is no commit '$1'" >&2; exit 1; }
# A merge is taken back to where it was merged into.
if ! before=$(git rev-parse --quiet --verify "$commit^1"); then
    # The first of all commits has no parent. One whose parents were not cloned would look like it.
    if git cat-file commit "$commit" | sed '/^$/q' | grep -q '^parent '; then
        echo "the commit before '$1' is not in this clone" >&2
        exit 1
    fi
    before=$(git hash-object -t tree /dev/null) || exit 1
fi
if git diff-tree --quiet --ignore-submodules "$before" "$commit"; then
    echo "the commit '$1' changes nothing" >&2
    exit 1
fi
git diff-tree -p --binary --full-index --no-renames --no-ext-diff --no-textconv --ignore-submodules \
    --src-prefix=a/ --dst-prefix=b/ "$before" "$commit" | git apply -R --whitespace=nowarn

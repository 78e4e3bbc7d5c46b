# Sourced by the gates. LINT_ROOT: the tree to look at (default: this repository), so that the self-test can point a gate at
# a seeded violation.
cd "${LINT_ROOT:-$(dirname "$0")/../..}" || exit 2
bad=0
seen=0
complain() {
    printf '%s\n' "$*"
    bad=$((bad + 1))
}
sources() { # [find arguments]: our C files
    find common frontend broker workers sandboxd deploy tests -type f \( -name '*.c' -o -name '*.h' \) -not -path '*/node_modules/*' "$@" 2>/dev/null | sort
}
finish() { # a gate that saw nothing must not pass
    if [ "$seen" -eq 0 ]; then
        echo "$0: saw no file"
        exit 2
    fi
    echo "$0: $seen files, $bad complaints"
    [ "$bad" -eq 0 ] || exit 1
    exit 0
}

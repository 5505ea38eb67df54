#!/usr/bin/env bash
# The unit tests on every Python that autopilot supports, each in an environment of its own from the lock.
# A version that is not installed is named, and is no failure. Usage: tools/pythons.sh [VERSION …]
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14

find_python() { # a shim of pyenv answers only for the versions that are switched on, so each one is tried
    local each
    for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        "$each" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null && echo "$each" && return
    done
    return 1
}

failed=()
for version in "$@"; do
    if ! python=$(find_python "$version"); then
        echo "Python $version: ABSENT, not tested"
        continue
    fi
    venv=".venv-$version"
    if make --no-print-directory VENV="$venv" PYTHON="$python" "$venv/.ready" &&
        "$venv/bin/pytest" -q -n auto -m "not slow" tests/unit; then
        echo "Python $version: passed"
    else
        echo "Python $version: FAILED"
        failed+=("$version")
    fi
done
[ ${#failed[@]} -eq 0 ]

# shellcheck shell=bash
# Finds a Python for Pallas and keeps the repository's virtual environment in step with pyproject.toml and
# constraints.txt. To be sourced; knows nothing of what the environment is used for.
#
#   root=…/pallas; . "$root/scripts/lib/python.sh"; prepare_environment; "$python" …
#
# PALLAS_PYTHON  an interpreter to use instead of looking for one
# PALLAS_VENV    where the environment is; default: .venv in the repository

venv=${PALLAS_VENV:-$root/.venv}
python=$venv/bin/python

# Whether "$1" runs, is new enough, and can make environments. Names on the path prove nothing: version
# managers put scripts there that only say that the version is not there.
usable_python() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 13))' >/dev/null 2>&1 </dev/null
}

# Every place where an interpreter may be, best first; 3.13 is what constraints.txt was made with.
python_candidates() {
    local name
    for name in python3.13 python3.14 python3.15 python3 python; do
        type -a -p "$name" || true
    done
    printf '%s\n' \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/python}"/*/bin/python3 \
        /usr/local/bin/python3.1[3-9] /opt/python*/bin/python3 /opt/homebrew/bin/python3.1[3-9]
}

find_python() {
    local candidate
    if [ -n "${PALLAS_PYTHON:-}" ]; then
        if usable_python "$PALLAS_PYTHON"; then
            printf '%s\n' "$PALLAS_PYTHON"
            return
        fi
        echo "error: PALLAS_PYTHON is $PALLAS_PYTHON, which is no Python 3.13 or newer with venv" >&2
        return 1
    fi
    while IFS= read -r candidate; do
        if [ -x "$candidate" ] && usable_python "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done < <(python_candidates)
    cat >&2 <<'MESSAGE'
error: no Python 3.13 or newer found: not on the path, in ~/.pyenv, in uv's directory, in /usr/local or /opt.
Install one (`uv python install 3.13`, `pyenv install 3.13`, or your system's packages: python3.13 and
python3.13-venv), or name one: PALLAS_PYTHON=/path/to/python3.13
MESSAGE
    return 1
}

# What an up-to-date environment was made from. Its path belongs to it: an environment cannot be moved.
environment_stamp() {
    { printf '%s\n' "$root" "$venv"; cat "$root/pyproject.toml" "$root/constraints.txt"; } | sha256sum
}

environment_is_current() {
    [ -x "$python" ] && [ "$(cat "$venv/stamp" 2>/dev/null)" = "$(environment_stamp)" ]
}

# Makes or mends the environment; returns at once when there is nothing to do. Two runs at a time take turns.
prepare_environment() {
    environment_is_current && return
    mkdir -p "$venv"
    (
        flock 9
        environment_is_current || install_environment
    ) 9>"$venv/lock"
}

install_environment() {
    rm -f "$venv/stamp"
    if ! environment_is_usable; then
        local base
        base=$(find_python) || return
        echo "making the environment $venv with $("$base" --version)" >&2
        find "$venv" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} + || return
        logged "$base" -m venv "$venv" || return
        printf '%s\n' "$venv" >"$venv/made-in"
    fi
    echo "installing Pallas and what it needs (once; about two minutes)" >&2
    # The build's own tools come first and from the constraints too: an isolated build would take the newest.
    logged pip_install hatchling editables || return
    logged pip_install --no-build-isolation -e "${root}[dev]" || return
    compile_everything
    environment_stamp >"$venv/stamp"
}

environment_is_usable() {
    [ -x "$python" ] && usable_python "$python" && [ "$(cat "$venv/made-in" 2>/dev/null)" = "$venv" ]
}

pip_install() {
    env -u PYTHONDONTWRITEBYTECODE -u PIP_NO_COMPILE -u PIP_TARGET -u PIP_USER \
        "$python" -m pip install --disable-pip-version-check -c "$root/constraints.txt" "$@"
}

# Without compiled files fast-agent takes three times as long to import. Some packages bring files that are
# templates and no Python: that these do not compile is right.
compile_everything() {
    local packages
    packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    env -u PYTHONDONTWRITEBYTECODE "$python" -m compileall -qq "$packages" >/dev/null 2>&1 || true
}

# Runs a command that has nothing to say unless it fails.
logged() {
    local log=$venv/install.log
    if ! "$@" >"$log" 2>&1 </dev/null; then
        {
            echo "error: the environment $venv could not be made. The end of $log:"
            tail -n 15 "$log" | sed 's/^/    /'
            echo "Is a package index reachable, and is there room on the disk? Then run the command again."
        } >&2
        return 1
    fi
}

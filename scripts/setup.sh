#!/usr/bin/env bash
# Make or repair .venv: the pinned packages and this project, editable.
#
#   scripts/setup.sh          everything `make test` needs (requirements/cpu.lock)
#   scripts/setup.sh --unit   the light set (requirements/unit.lock); nothing to do where the full set is there
#
# PYTHON=/path/to/python chooses the interpreter. pip's own settings (indexes, proxies, certificates) are honoured.
# A finished set leaves a stamp in .venv; while the lock and pyproject.toml stay the same, another run has nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
PY=$VENV/bin/python

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

set_name=full
case "${1-}" in
    '') ;;
    --unit) set_name=unit ;;
    -h | --help)
        sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    *) die "unknown option $1 (there is only --unit)" ;;
esac
[ $# -le 1 ] || die "too many arguments"

lock_of() { [ "$1" = full ] && echo requirements/cpu.lock || echo requirements/unit.lock; }

# What a set is made from: its lock, the project's metadata, and where the project lies.
key_of() { { cat "$(lock_of "$1")" pyproject.toml && pwd; } | sha256sum; }

is_done() {
    [ -x "$VENV/bin/roundtable-local" ] && [ "$(cat "$VENV/.stamp-$1" 2>/dev/null)" = "$(key_of "$1")" ]
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    die "Python 3.11 or newer is needed (python3 here is $(version_of python3 || echo missing)); install one, or name it: PYTHON=/path/to/python $0"
}

# pip tells of every package it looks at. Keep what matters: large downloads, the start of the installation and, on
# standard error, whatever is not its usual chatter. (That an index in a folder lacks a package is chatter: another has it.)
pip_install() {
    PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 \
        "$PY" -m pip install --no-deps --progress-bar off "$@" 2>&1 </dev/null |
        while IFS= read -r line; do
            case "$line" in
                *' Downloading '*[MG]B\) | *' Using cached '*[MG]B\)) printf '  %s\n' "${line#"${line%%[! ]*}"}" ;;
                'Installing collected packages'*) printf '  installing what was collected\n' ;;
                'Looking in '* | 'Requirement already '* | 'Collecting '* | 'Obtaining '* | 'Building '*) ;;
                'Processing '* | 'Successfully '* | 'WARNING: Location '*' is ignored: '*) ;;
                '  Downloading '* | '  Using cached '* | '  Preparing '* | '  Getting '* | '  Checking '*) ;;
                '  Installing '* | '  Building '* | '  Created '* | '  Stored '* | '  Attempting uninstall'*) ;;
                '    Found existing '* | '    Uninstalling '* | '      Successfully uninstalled '*) ;;
                *) printf '%s\n' "$line" >&2 ;;
            esac
        done
}

# An installation that was killed leaves packages half written. pip writes INSTALLER after a package's own files, so a
# package without it is torn: forget it, and pip installs it again. `~name` is one that pip was about to replace.
repair() {
    local site info
    site=$("$PY" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    for info in "$site"/*.dist-info "$site"/~*; do
        if [ -e "$info" ] && [ ! -e "$info/INSTALLER" ] || [[ $info == "$site/~"* && -e $info ]]; then
            say "clearing ${info##*/}, left by an interrupted installation"
            rm -rf "$info"
        fi
    done
}

# --- one run at a time, where the system has flock ---
if command -v flock >/dev/null; then
    exec 9>.venv.lock
    flock --nonblock 9 || {
        say "another setup is at work here; waiting for it"
        flock 9
    }
fi

# --- nothing to do? ---
if is_done full; then
    say "$VENV is ready (full set)"
    exit 0
elif [ $set_name = unit ] && is_done unit; then
    say "$VENV is ready (light set)"
    exit 0
fi

# --- the virtual environment ---
python=${PYTHON-}
[ -z "$python" ] || new_enough "$python" || die "PYTHON=$python is not a Python 3.11 or newer"
if [ -e $VENV ]; then
    if ! new_enough "$PY" || ! "$PY" -m pip --version >/dev/null 2>&1; then
        say "$VENV has no working Python 3.11 or newer with pip; making it anew"
        rm -rf $VENV
    elif [ "$(cat $VENV/.root 2>/dev/null || pwd)" != "$(pwd)" ]; then
        say "$VENV was made in another folder; making it anew"
        rm -rf $VENV
    elif [ -n "$python" ] && [ "$(version_of "$python")" != "$(version_of "$PY")" ]; then
        say "$VENV has Python $(version_of "$PY"), PYTHON names another; making it anew"
        rm -rf $VENV
    fi
fi
if [ ! -e $VENV ]; then
    [ -n "$python" ] || python=$(find_python)
    say "making $VENV with Python $(version_of "$python")"
    if ! "$python" -m venv $VENV; then
        rm -rf $VENV
        die "$python could not make a virtual environment; on Debian and Ubuntu install its venv package (python3-venv)"
    fi
fi
pwd >$VENV/.root
rm -f $VENV/.stamp-full $VENV/.stamp-unit

# --- the packages ---
repair
lock=$(lock_of $set_name)
say "installing the $(grep -c '^[A-Za-z0-9]' "$lock") packages of $lock (the first time: $(
    [ $set_name = full ] && echo 'about 1 GB to download, a few minutes' || echo 'under a minute'
))"
pip_install -r "$lock" ||
    die "pip could not install $lock (its message is above); check the network and pip's settings (\`pip config list\`), then run this again: it goes on where it stopped"

if [ $set_name = full ]; then
    say "trying torch"
    if ! "$PY" -c 'import torch' 2>$VENV/torch-error.txt; then
        tail -n 1 $VENV/torch-error.txt >&2
        # pip would take the wrong build for installed, and leave it.
        "$PY" -m pip uninstall --quiet --yes torch || true
        die "torch was installed but does not import: most likely pip found only its CUDA build. Name an index with CPU builds in your pip settings, e.g. PIP_EXTRA_INDEX_URL=..., and run this again; or, on a machine with a GPU, install the cuda extra instead: pip install '.[cuda]'"
    fi
fi

say "installing roundtable-local itself, editable"
pip_install --no-build-isolation -e . || die "pip could not install this project (its message is above)"

key_of $set_name >$VENV/.stamp-$set_name
say "$VENV is ready ($([ $set_name = full ] && echo full || echo light) set)"

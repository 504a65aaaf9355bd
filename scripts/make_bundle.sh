#!/usr/bin/env bash
# Make an air-gap kit: one folder with every wheel, a model, checksums, and an install script that needs no network.
#
#   scripts/make_bundle.sh --out DIR                     everything of requirements/cpu.lock (vLLM for the CPU), no model
#   scripts/make_bundle.sh --out DIR --model /models/x   with this model folder
#   scripts/make_bundle.sh --out DIR --model tiny        with the tiny model of the demo
#   scripts/make_bundle.sh --out DIR --set unit          the light set: command line, protocols, scripted backend
#
# --python /path/to/python chooses the interpreter, and with it the one that the other machine needs; without it, .venv's
# or PYTHON's. pip's own settings (indexes, proxies, certificates) are honoured. What fails leaves nothing in DIR.
set -euo pipefail

say() { printf 'bundle: %s\n' "$*"; }
die() {
    printf 'bundle: %s\n' "$*" >&2
    exit 1
}

absolute() { [[ $1 == /* ]] && printf '%s\n' "$1" || printf '%s\n' "$PWD/$1"; }

out='' model='' set_name=full python=${PYTHON-}
while [ $# -gt 0 ]; do
    case "$1" in
        --out | --model | --set | --python)
            [ -n "${2-}" ] || die "$1 needs a value"
            case "$1" in
                --out) out=$(absolute "$2") ;;
                --model) model=$2 ;;
                --set) set_name=$2 ;;
                --python) python=$2 ;;
            esac
            shift 2
            ;;
        -h | --help)
            sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) die "unknown option $1 (there are --out, --model, --set and --python)" ;;
    esac
done
[ -n "$out" ] || die "name the folder to make: --out DIR"
case "$set_name" in
    full) lock=requirements/cpu.lock ;;
    unit) lock=requirements/unit.lock ;;
    *) die "--set is full or unit, not $set_name" ;;
esac
[ -z "$model" ] || [ "$model" = tiny ] || model=$(absolute "$model")
[[ $python != */* ]] || python=$(absolute "$python")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# --- a Python with pip ---
new_enough() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -z "$python" ]; then
    for python in .venv/bin/python python3 python3.14 python3.13 python3.12 python3.11 ''; do
        [ -z "$python" ] || ! new_enough "$python" || break
    done
    [ -n "$python" ] || die "Python 3.11 or newer is needed; install one, or name it: --python /path/to/python"
elif ! new_enough "$python"; then
    die "$python is not a Python 3.11 or newer"
fi
"$python" -m pip --version >/dev/null 2>&1 ||
    die "$python has no pip; run scripts/setup.sh --unit, whose .venv has one, or name another: --python /path/to/python"

# --- the model, before anything takes long ---
name='' profile=''
if [ "$model" = tiny ]; then
    maker=$python
    [ ! -x .venv/bin/python ] || maker=.venv/bin/python
    told=$("$maker" scripts/tiny_model.py | tee >(cat >&2)) || die "there is no tiny model to pack (the reason is above)"
    model=$(sed -n 's/^tiny model: ready at //p' <<<"$told")
    profile=tiny-cpu
fi
if [ -n "$model" ]; then
    for file in config.json tokenizer.json '*.safetensors'; do
        [ -n "$(find -L "$model" -maxdepth 1 -name "$file" -type f 2>/dev/null)" ] ||
            die "$model has no $file; name the folder of a model in Hugging Face format"
    done
    model=$(cd "$model" && pwd -P)
    name=${model##*/}
    odd=$(find -L "$model" \( -name $'*\n*' -o -name '*\\*' \) -print -quit)
    [ -z "$odd" ] || die "the name of a file in $model has a line break or a backslash, which SHA256SUMS can't list plainly"
fi

commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit, with changes that were not committed"

# --- the folder; what fails below leaves it as it was ---
made=no finished=no
if [ -e "$out" ]; then
    [ -d "$out" ] || die "$out is a file; name a new folder"
    [ -z "$(ls -A "$out")" ] || die "$out is not empty; name a new folder"
else
    mkdir -p "$out" || die "cannot make $out (the message is above)"
    made=yes
fi
clear_up() {
    if [ $finished = no ]; then
        find "$out/" -mindepth 1 -delete
        [ $made = no ] || rmdir "$out"
    fi
}
trap clear_up EXIT

# --- the wheels ---
# pip tells of every package on standard output; keep what takes long. Its warnings and errors come as they are, but for
# one: that an index in a folder lacks a package is chatter, another has it.
pip_wheel() {
    PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 \
        "$python" -m pip wheel --no-deps --progress-bar off --wheel-dir "$out/wheels" "$@" \
        2> >(grep -v "^WARNING: Location '.*' is ignored: " >&2) </dev/null |
        while IFS= read -r line; do
            case "$line" in
                *' Downloading '*[MG]B\) | *' Using cached '*[MG]B\)) printf '  %s\n' "${line#"${line%%[! ]*}"}" ;;
                'Building wheel for '*) printf '  %s\n' "${line%% (*}" ;;
            esac
        done
}

say "collecting the $(grep -c '^[A-Za-z0-9]' "$lock") packages of $lock$([ "$set_name" = unit ] || echo ' (about 1 GB, a few minutes)')"
pip_wheel -r "$lock" ||
    die "pip could not get all of $lock (its message is above); check the network and pip's settings (\`pip config list\`)"
say "building roundtable-local itself"
# The build tools are in the locks, and so in the folder already.
pip_wheel --find-links "$out/wheels" . || die "pip could not build this project (its message is above)"

# A CUDA build of torch asks for packages that no lock here has, and would fail only on the other machine.
"$python" -I - "$out/wheels" <<'PYTHON' || die "pip found the CUDA build of torch only; name an index with CPU builds in your pip settings, e.g. PIP_EXTRA_INDEX_URL=..., and run this again"
import sys, zipfile
from pathlib import Path
for wheel in Path(sys.argv[1]).glob("torch-*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    sys.exit(any(line.startswith(("Requires-Dist: nvidia-", "Requires-Dist: cuda-")) for line in lines))
PYTHON

# --- the model's copy; links (a hub cache is full of them) become what they point to ---
if [ -n "$name" ]; then
    say "copying the model $name ($(du -shL "$model" | cut -f1))"
    mkdir "$out/model"
    cp -RL "$model" "$out/model/$name" || die "the model could not be copied (the message is above)"
fi

# --- what it is, how to install it ---
cp "$lock" "$out/"
cp scripts/install_bundle.sh "$out/install.sh"
chmod 755 "$out/install.sh"

package=$(basename "$out"/wheels/roundtable_local-*.whl | sed 's/^roundtable_local-\([^-]*\)-.*/roundtable-local==\1/')
{
    printf 'set: %s\nlock: %s\npackage: %s\n' "$set_name" "${lock##*/}" "$package"
    # install.sh asks the other machine's Python for the same lines.
    "$python" -I -c 'import platform, sys, sysconfig
print("python: %d.%d" % sys.version_info[:2])
print("abi:", sysconfig.get_config_var("SOABI"))
print("platform:", sysconfig.get_platform())
print("libc:", *platform.libc_ver())'
    printf 'commit: %s\n' "$commit"
    [ -z "$name" ] || printf 'model: %s\n' "$name"
    [ -z "$profile" ] || printf 'profile: %s\n' "$profile"
} >"$out/LOCK"
lock_says() { sed -n "s/^$1: //p" "$out/LOCK"; }

cat >"$out/README.txt" <<TEXT
roundtable-local: structured debates on local models, with everything it needs to be installed without a network.
For Python $(lock_says python) on $(lock_says platform); LOCK says exactly what is in it, SHA256SUMS lists every file.

    sha256sum SHA256SUMS              # the number that make_bundle.sh told where this folder was made
    bash install.sh ~/roundtable      # checks every file, makes a virtual environment there, installs, tries it
    ~/roundtable/bin/roundtable-local run "Should we adopt this?" --backend scripted --out /tmp/debates

install.sh ends with the command that debates on the model in this folder, if there is one; \`bash install.sh --help\`
lists its options.
TEXT

# --- would it install? the same resolution that install.sh will ask for ---
PIP_CONFIG_FILE=/dev/null "$python" -I -m pip --isolated --disable-pip-version-check install --quiet --dry-run \
    --ignore-installed --no-index --find-links "$out/wheels" --no-deps -r "$out/${lock##*/}" "$package" ||
    die "the wheels collected do not make up $lock (pip's message is above)"

# --- the checksums, last: a folder without them is not finished ---
say "listing checksums ($(du -sh "$out" | cut -f1))"
sums=$(cd "$out" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
sed 's/^\([^ ]*  \)\.\//\1/' <<<"$sums" >"$out/SHA256SUMS"
finished=yes
say "$out is ready: $(du -sh "$out" | cut -f1), $(find "$out/wheels" -name '*.whl' | wc -l) wheels, for Python $(lock_says python) on $(lock_says platform)"
say "sha256 of its SHA256SUMS, to be compared on the other machine: $(sha256sum "$out/SHA256SUMS" | cut -d' ' -f1)"

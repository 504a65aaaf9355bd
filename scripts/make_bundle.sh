#!/usr/bin/env bash
# Make an air-gap kit: one folder with every wheel, a model, checksums, and an install script that needs no network.
#
#   scripts/make_bundle.sh --out DIR                     the full set (vLLM for the CPU), without a model
#   scripts/make_bundle.sh --out DIR --model tiny        with the tiny model of the demo
#   scripts/make_bundle.sh --out DIR --model /models/x   with a model folder of yours
#   scripts/make_bundle.sh --out DIR --set unit          the light set: command line, protocols, scripted backend
#
# Carry DIR to a machine of the same kind and run DIR/install.sh there. pip's own settings (indexes, proxies) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'bundle: %s\n' "$*"; }
die() {
    printf 'bundle: %s\n' "$*" >&2
    exit 1
}

out='' model='' set_name=full
while [ $# -gt 0 ]; do
    case "$1" in
        --out | --model | --set)
            [ $# -ge 2 ] || die "$1 needs a value"
            case "$1" in
                --out) out=$2 ;;
                --model) model=$2 ;;
                --set) set_name=$2 ;;
            esac
            shift 2
            ;;
        -h | --help)
            sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) die "unknown option $1 (there are --out, --model and --set)" ;;
    esac
done
[ -n "$out" ] || die "name the folder to make: --out DIR"
case "$set_name" in
    full) lock=requirements/cpu.lock ;;
    unit) lock=requirements/unit.lock ;;
    *) die "--set is full or unit, not $set_name" ;;
esac
if [ -e "$out" ] && { [ ! -d "$out" ] || [ -n "$(ls -A "$out")" ]; }; then
    die "$out is there and not empty; name a new folder"
fi

if [ "$set_name" = full ]; then scripts/setup.sh; else scripts/setup.sh --unit; fi
PY=$PWD/.venv/bin/python
mkdir -p "$out/wheels"
out=$(cd "$out" && pwd)

say "collecting the wheels of $lock (the full set is about 1 GB)"
# That an index in a folder lacks a package is chatter: another has it.
"$PY" -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir "$out/wheels" -r "$lock" \
    2> >(grep -v 'is ignored: it is neither a file nor a directory' >&2) ||
    die "pip could not get all of $lock (its message is above)"
say "building roundtable-local itself"
"$PY" -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation --wheel-dir "$out/wheels" .

if [ -n "$model" ]; then
    if [ "$model" = tiny ]; then
        [ "$set_name" = full ] || die "the tiny model is converted with the full set; leave out --set unit"
        "$PY" scripts/tiny_model.py
        model=$("$PY" -c 'from roundtable_local.config import model_profile; print(model_profile("tiny-cpu", {}).path)')
    fi
    [ -f "$model/config.json" ] || die "$model is not a model's folder: it has no config.json"
    name=$(basename "$model")
    say "copying the model $name ($(du -sh "$model" | cut -f1))"
    mkdir -p "$out/model"
    cp -RL "$model" "$out/model/$name"
fi

cp "$lock" "$out/requirements.lock"
"$PY" - >"$out/MADE-FOR" <<'PYTHON'
import platform, sys, sysconfig
print(f"python {sys.version_info[0]}.{sys.version_info[1]}")
print(f"platform {sysconfig.get_platform()}")
print(f"libc {'-'.join(platform.libc_ver())}")
PYTHON
printf 'set %s\ncommit %s\n' "$set_name" "$(git rev-parse HEAD 2>/dev/null || echo unknown)" >>"$out/MADE-FOR"

cat >"$out/README.txt" <<'TEXT'
roundtable-local for a machine without a network.

    ./install.sh /opt/roundtable            checks every file, makes a virtual environment there, installs into it
    /opt/roundtable/bin/roundtable-local doctor --model model/NAME
    /opt/roundtable/bin/roundtable-local run decision.md --model /path/to/this/folder/model/NAME

MADE-FOR says which Python and platform this kit is for. SHA256SUMS lists every file of it.
TEXT

cat >"$out/install.sh" <<'SCRIPT'
#!/usr/bin/env bash
# Install roundtable-local from this folder into a new virtual environment. Needs no network.
#   ./install.sh DIR      PYTHON=/path/to/python chooses the interpreter
set -euo pipefail

die() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}
[ $# -eq 1 ] || die "name the folder to install into: ./install.sh DIR"
target=$1
case "$target" in /*) ;; *) target=$PWD/$target ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")"

made_for() { sed -n "s/^$1 //p" MADE-FOR; }
python=${PYTHON-}
if [ -z "$python" ]; then
    python=$(command -v "python$(made_for python)" || command -v python3 || true)
fi
[ -n "$python" ] || die "Python $(made_for python) is needed; install it, or name it: PYTHON=/path/to/python ./install.sh DIR"
has=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$has" = "$(made_for python)" ] || die "this kit is for Python $(made_for python), and $python is $has; make another kit, or name the right one with PYTHON="
platform=$("$python" -c 'import sysconfig; print(sysconfig.get_platform())')
[ "$platform" = "$(made_for platform)" ] || die "this kit is for $(made_for platform), and this machine is $platform"

echo "install: checking every file"
listed=$(mktemp)
trap 'rm -f "$listed"' EXIT
sed 's/^[0-9a-f]*  //' SHA256SUMS | LC_ALL=C sort >"$listed"
extra=$(find . -type f ! -name SHA256SUMS | sed 's/^\.\///' | LC_ALL=C sort | comm -13 "$listed" -)
[ -z "$extra" ] || die "not listed in SHA256SUMS: $extra"
sha256sum --check --quiet --strict SHA256SUMS || die "the files named above are missing or not what was sent; copy the kit again"

if [ ! -x "$target/bin/python" ]; then
    echo "install: making $target with Python $has"
    "$python" -m venv "$target"
fi
echo "install: installing $(find wheels -name '*.whl' | wc -l) wheels"
pip() { "$target/bin/python" -m pip --isolated --disable-pip-version-check --no-input "$@"; }
pip install --quiet --no-index --find-links wheels --no-deps -r requirements.lock
pip install --quiet --no-index --find-links wheels --no-deps --force-reinstall roundtable-local
"$target/bin/roundtable-local" --version
for model in model/*/; do
    [ -d "$model" ] || continue
    echo "install: the model is used as it lies here: --model $PWD/${model%/}"
done
echo "install: done; try: $target/bin/roundtable-local run \"Should we?\" --backend scripted --dry-run"
SCRIPT
chmod +x "$out/install.sh"

say "listing checksums"
sums=$(mktemp)
(cd "$out" && find . -type f | sed 's/^\.\///' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum) >"$sums"
mv "$sums" "$out/SHA256SUMS"
chmod 644 "$out/SHA256SUMS"
say "$out is ready: $(du -sh "$out" | cut -f1), $(find "$out/wheels" -name '*.whl' | wc -l) wheels"

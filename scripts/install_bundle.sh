#!/usr/bin/env bash
# Install roundtable-local from this folder into a virtual environment of its own. Needs no network.
#
#   bash install.sh DIR                 check every file, make the environment DIR, install, try it
#   bash install.sh DIR --copy-model    also copy the model into your cache, so that this folder can go
#   bash install.sh DIR --python PATH   with this Python; LOCK says which version it has to be
#
# Another run checks everything again and leaves a finished DIR as it is; an unfinished or older one is made anew.
set -euo pipefail

MARK=.roundtable-bundle # in DIR: which bundle was installed; until then, that DIR is ours to clear
SHOWN=10                # damaged files named, before the rest is only counted

say() { printf 'install: %s\n' "$*"; }
die() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

target='' python=${PYTHON-} copy_model=no
while [ $# -gt 0 ]; do
    case "$1" in
        --copy-model) copy_model=yes ;;
        --python)
            [ $# -ge 2 ] || die "--python needs a value"
            python=$2
            shift
            ;;
        -h | --help)
            sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        -*) die "unknown option $1 (there are --copy-model and --python)" ;;
        *)
            [ -z "$target" ] || die "more than one folder to install into: $target and $1"
            target=$1
            ;;
    esac
    shift
done
[ -n "$target" ] || die "name the folder to install into: bash install.sh DIR"
[[ $target == /* ]] || target=$PWD/$target
[[ $python != */* || $python == /* ]] || python=$PWD/$python
cd "$(dirname "${BASH_SOURCE[0]}")"
bundle=$(pwd -P)
# What lies on these would pass for installed, here and in every try below.
unset PYTHONPATH PYTHONHOME

lock_says() { sed -n "s/^$1: //p" LOCK; }

# --- the files: all there, unchanged, and none besides ---
listed() { sed 's/^[^ ]*  //' SHA256SUMS | LC_ALL=C sort; }
present() { find . ! -type d ! -path ./SHA256SUMS -print | sed 's/^\.\///' | LC_ALL=C sort; }
damage() {
    comm -23 <(listed) <(present) | sed 's/^/missing: /'
    comm -13 <(listed) <(present) | sed 's/^/not listed in SHA256SUMS: /'
    LC_ALL=C sha256sum --check --quiet SHA256SUMS 2>/dev/null | sed -n 's/^\(.*\): FAILED$/changed: \1/p'
}

[ -f SHA256SUMS ] || die "SHA256SUMS is missing: this bundle is not complete; copy the whole folder again"
say "checking $(wc -l <SHA256SUMS) files ($(du -sh . | cut -f1))"
if ! sha256sum --check --status --strict SHA256SUMS 2>/dev/null || [ -n "$(comm -13 <(listed) <(present))" ]; then
    damaged=$(damage || true)
    count=$(printf '%s' "$damaged" | grep -c '' || true)
    [ "$count" -gt 0 ] || die "SHA256SUMS is damaged; copy the bundle again"
    head -n $SHOWN <<<"$damaged" | sed 's/^/  /' >&2
    [ "$count" -le $SHOWN ] || printf '  and %s more\n' $((count - SHOWN)) >&2
    die "the bundle is not what was made; nothing was installed: copy it again, and remove what is not listed"
fi

# --- the Python: of the version, build and platform that the wheels are for ---
facts_of() {
    "$1" -I -c 'import platform, sys, sysconfig
print("python: %d.%d" % sys.version_info[:2])
print("abi:", sysconfig.get_config_var("SOABI"))
print("platform:", sysconfig.get_platform())
print("libc:", *platform.libc_ver())' 2>/dev/null
}

# Why this Python can't be used; nothing where it can.
misfit_of() {
    local facts key here
    facts=$(facts_of "$1") || {
        echo "$1 is not a Python that runs"
        return
    }
    for key in platform python abi; do
        here=$(sed -n "s/^$key: //p" <<<"$facts")
        if [ "$here" != "$(lock_says $key)" ]; then
            echo "the bundle was made for $key $(lock_says $key), and $1 is $key $here"
            return
        fi
    done
}

find_python() {
    local candidate misfit reason=
    for candidate in "python$(lock_says python)" python3 python; do
        candidate=$(command -v "$candidate") || continue
        misfit=$(misfit_of "$candidate")
        if [ -z "$misfit" ]; then
            echo "$candidate"
            return
        fi
        [[ -n $reason && $reason != *"not a Python"* ]] || reason=$misfit
    done
    die "${reason:-no Python was found}; name a Python $(lock_says python) for $(lock_says platform): --python /path/to/python"
}

if [ -z "$python" ]; then
    python=$(find_python)
else
    misfit=$(misfit_of "$python")
    [ -z "$misfit" ] || die "$misfit; name another with --python, or make a bundle with such a Python"
fi

# --- the virtual environment ---
digest=$(sha256sum SHA256SUMS | cut -d' ' -f1)
command=$target/bin/roundtable-local

case "$(realpath -m -- "$target")/" in
    "$bundle"/*) die "$target lies in the bundle, which has to stay as it is; name another folder" ;;
esac
if [ -e "$target" ] && [ ! -d "$target" ]; then
    die "$target is a file; name another folder"
fi
mkdir -p -- "$target" || die "cannot make $target (the message is above)"
if [ ! -e "$target/$MARK" ] && [ -n "$(ls -A -- "$target")" ]; then
    die "$target holds something else; name a new or empty folder"
fi

pip_install() {
    # Nothing but this folder: no index, no cache, no setting and no variable of the user's.
    PIP_CONFIG_FILE=/dev/null "$target/bin/python" -I -m pip --isolated --disable-pip-version-check --no-input \
        --no-cache-dir install --quiet --no-index --find-links wheels --no-deps "$@"
}

install_into_target() {
    local count
    echo unfinished >"$target/$MARK"
    find "$target/" -mindepth 1 ! -name "$MARK" -delete
    say "making $target with $python"
    "$python" -I -m venv "$target" ||
        die "$python could not make a virtual environment; on Debian and Ubuntu its venv package is needed (python3-venv)"
    count=$(find wheels -name '*.whl' | wc -l)
    say "installing $count packages ($([ "$count" -lt 100 ] && echo 'under a minute' || echo 'a few minutes'))"
    pip_install -r "$(lock_says lock)" "$(lock_says package)" ||
        die "pip could not install (its message is above); the bundle was made with libc $(lock_says libc), here is $(
            facts_of "$python" | sed -n 's/^libc: //p'
        ): where this one is older, make the bundle on a machine as old"
    if [ "$(lock_says set)" = full ]; then
        say "trying torch"
        "$target/bin/python" -I -c 'import torch' || die "torch was installed but does not import (the message is above)"
    fi
    echo "$digest" >"$target/$MARK"
}

if [ "$(cat "$target/$MARK" 2>/dev/null)" = "$digest" ] && "$command" --version >/dev/null 2>&1; then
    say "$target has this bundle already"
else
    install_into_target
fi

# --- the model ---
# Copy model/NAME to where model profiles look for it. A copy is complete from its first moment, or not there at all.
copy_to_cache() {
    local cache dest
    cache=$("$target/bin/python" -I -c \
        'import platformdirs; print(platformdirs.user_cache_path("roundtable-local", appauthor=False))')
    dest=$cache/models/$1
    if [ -e "$dest" ]; then
        diff -rq "model/$1" "$dest" >&2 ||
            die "$dest is there and differs from the bundle's (see above); remove it, or leave out --copy-model"
    else
        say "copying the model to $dest ($(du -sh "model/$1" | cut -f1))" >&2
        mkdir -p "$cache/models"
        partial=$cache/models/.$1.$$.tmp
        trap 'rm -rf "$partial"' EXIT
        cp -R "model/$1" "$partial" || die "the model could not be copied (the message is above); nothing of it was kept"
        mv "$partial" "$dest"
    fi
    echo "$dest"
}

options=(--backend scripted)
model=$(lock_says model)
if [ -n "$model" ]; then
    profile=$(lock_says profile)
    path=$bundle/model/$model
    [ $copy_model = no ] || path=$(copy_to_cache "$model")
    if [ -z "$profile" ]; then
        options=(--model "$path")
    elif [ $copy_model = yes ]; then
        options=(--model "$profile")
    else
        options=(--model "$profile" --set "model.path=$path")
    fi
elif [ $copy_model = yes ]; then
    die "there is no model in this bundle; leave out --copy-model"
fi

# --- does it work? ---
say "trying a dry run"
"$command" --version
dry_run=$("$command" run "Should we adopt this?" "${options[@]}" --dry-run 2>&1 </dev/null) || {
    printf '%s\n' "$dry_run" >&2
    die "installed, but the dry run above failed"
}
grep '^window ' <<<"$dry_run" || true
say "done; a debate:"
printf '  %q run "Should we adopt this?"' "$command"
printf ' %q' "${options[@]}"
printf '\n'

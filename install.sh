#!/bin/sh
# Installs the command `sandbur` from this checkout, for one person, without root.
#   sh install.sh [EXTRA...]           with uv, else pipx, else in an environment of its own (Python with venv)
#   sh install.sh --demo [EXTRA...]    the same, then the demo: no key, no network
#   sh install.sh --remove             removes the command; sessions and settings stay
# Running it again updates the installation. Extras, such as serve or mcp, are in docs/install.md; name all that
# you want each time. PYTHON=/path/to/python3 chooses the interpreter.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
bin=$HOME/.local/bin
data=${XDG_DATA_HOME:-$HOME/.local/share}
environments=$data/sandbur-environments # one folder an installation; only the newest one is kept
manual=$data/man/man1/sandbur.1

say() { printf '%s\n' "$*"; }
fail() {
  say "install.sh: $1" >&2
  [ $# -lt 2 ] || say "$2" >&2
  exit "${3:-1}"
}
has() { command -v "$1" >/dev/null 2>&1; }

# Run a command; show what it prints only if it fails.
quietly() {
  if ! printed=$("$@" 2>&1); then
    say "$printed" >&2
    fail "$1 failed, see above."
  fi
}

# The extras that pyproject.toml declares for people: those for work on Sandbur itself are left out.
list_extras() {
  sed -n '/^\[project.optional-dependencies\]/,/^\[project\./s/^\([a-z0-9]*\) = \[.*/\1/p' "$here/pyproject.toml" |
    grep -vx -e test -e dev
}

# Print a Python 3.11 or newer that can make environments.
find_python() {
  for one in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      "$one" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$one has no module venv." "Install it, such as with: apt install python3-venv"
      say "$one"
      return
    fi
  done
  fail "Sandbur needs Python 3.11 or newer; ${PYTHON:-python3} is older or is not there." \
    "Install one, or name it: PYTHON=/path/to/python3 sh install.sh"
}

# Remove the environments that the link does not name: older ones, and what a killed installation left.
sweep() {
  for one in "$environments"/*; do
    case $(readlink "$bin/sandbur" 2>/dev/null || :) in
      "$one"/*) ;;
      *) rm -rf "$one" ;;
    esac
  done
}

# Whether the command that is there was installed by this script, or there is none.
is_ours() {
  [ ! -e "$bin/sandbur" ] && [ ! -L "$bin/sandbur" ] && return
  case $(readlink "$bin/sandbur" 2>/dev/null || :) in "$environments"/*) ;; *) return 1 ;; esac
}

# Make a new environment, then point the link at it: until then the earlier installation works.
install_in_environment() {
  python=$(find_python) || exit
  is_ours || fail "$bin/sandbur is there already, and this script did not make it." "Remove it, then run this again."
  mkdir -p "$environments" "$bin"
  place=$(mktemp -d "$environments/$(date +%Y%m%d-%H%M%S)-XXXXXX")
  trap 'rm -rf "$place"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "$python" -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check "$1" ||
    fail "pip could not install Sandbur, see above." "What was installed before is unchanged."
  ln -s "$place/bin/sandbur" "$bin/.sandbur-new.$$"
  mv -f "$bin/.sandbur-new.$$" "$bin/sandbur"
  trap - EXIT INT TERM HUP
  mkdir -p "$(dirname "$manual")"
  ln -sfn "$place/share/man/man1/sandbur.1" "$manual"
  sweep
  way="in an environment of its own, $place, with $("$place/bin/python" -V)"
}

install() {
  wanted=$here${1:+[$1]}
  say "Installing Sandbur from $here${1:+ with $1} ..."
  if has uv; then
    quietly uv tool install --force --reinstall-package sandbur "$wanted"
    bin=$(uv tool dir --bin) way="with uv"
  elif has pipx; then
    quietly pipx install --force "$wanted"
    bin=$(pipx environment --value PIPX_BIN_DIR) way="with pipx"
  else
    install_in_environment "$wanted"
  fi
  version=$("$bin/sandbur" --version) || fail "The installed command does not start." "Please report what is above."
  say "Installed $version $way. The command is $bin/sandbur."
  case :$PATH: in
    *":$bin:"*) ;;
    *)
      say "That folder is not on your PATH yet. Add it, in this terminal and in ~/.profile (zsh: ~/.zprofile), by:"
      say "    export PATH=\"$bin:\$PATH\""
      ;;
  esac
}

remove() {
  removed=
  if has uv && uv tool list 2>/dev/null | grep -q '^sandbur '; then
    quietly uv tool uninstall sandbur
    removed="the tool of uv"
  fi
  if has pipx && pipx list --short 2>/dev/null | grep -q '^sandbur '; then
    quietly pipx uninstall sandbur
    removed="${removed:+$removed, }the application of pipx"
  fi
  if [ -d "$environments" ]; then
    ! is_ours || rm -f "$bin/sandbur"
    case $(readlink "$manual" 2>/dev/null || :) in "$environments"/*) rm -f "$manual" ;; esac
    rm -rf "$environments"
    removed="${removed:+$removed, }$environments and its link"
  fi
  [ -n "$removed" ] || fail "There is no Sandbur that this script, uv or pipx has installed."
  say "Removed $removed. Your sessions and settings are still there; docs/install.md says where."
}

extras='' with_demo='' removes=''
for word in "$@"; do
  case $word in
    --demo) with_demo=yes ;;
    --remove) removes=yes ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
      exit
      ;;
    *)
      list_extras | grep -qx -e "$word" ||
        fail "There is no extra or option $word." "Extras: $(list_extras | tr '\n' ' ')" 2
      extras=${extras:+$extras,}$word
      ;;
  esac
done

if [ -n "$removes" ]; then
  [ -z "$extras$with_demo" ] || fail "--remove takes no other words." "It removes the command with all its extras." 2
  remove
  exit
fi
install "$extras"
if [ -n "$with_demo" ]; then
  say "The demo: a program in place of a model; its tools are real."
  "$bin/sandbur" -m demo --yolo -p "my web site is slow, find out why"
else
  say "Try it without a key: sandbur -m demo --yolo -p \"my web site is slow, find out why\""
fi

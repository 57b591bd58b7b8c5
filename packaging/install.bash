# How `./x` comes by what it needs: Debian packages, and parts of the Rust toolchain. Read by `./x`, whose `say` and `fail` it uses.
# shellcheck shell=bash

# need WHY PACKAGE[=PROGRAM]...: installs what is missing. A package counts as present when its program is on the
# path, wherever that came from; without a program named, when dpkg knows it.
need() {
  local why=$1 item missing=()
  shift
  for item in "$@"; do
    present "$item" || missing+=("${item%%=*}")
  done
  [ "${#missing[@]}" -eq 0 ] && return
  command -v apt-get >/dev/null || fail "missing ${missing[*]} ($why), and there is no apt-get here to install them with"
  say "installing ${missing[*]} ($why)"
  # Lists may be stale or absent on a fresh machine: refresh them once, and only when the first try fails.
  install_packages "${missing[@]}" || { as_root apt-get update --quiet --quiet && install_packages "${missing[@]}"; } ||
    fail "could not install ${missing[*]}; install them by hand and try again"
}

# Peers are only run by the bench: a service that its package starts is stopped again, unless it was there before.
need_without_service() {
  local item package
  for item in "$@"; do
    present "$item" && continue
    package=${item%%=*}
    need "as peer to compare with" "$item"
    [ -d /run/systemd/system ] && as_root systemctl disable --now --quiet "$package"
  done
  return 0
}

present() {
  local package=${1%%=*} program=${1#*=}
  if [[ $1 == *=* ]]; then
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ]
  else
    # Where there is no dpkg, the build itself will say what it misses.
    ! command -v dpkg-query >/dev/null || dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed
  fi
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends "$@" >/dev/null
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "root is needed for: $* (there is no sudo here)"
  fi
}

rust_version() {
  local wanted found
  wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || found=
  if [ -z "$found" ]; then
    fail "Rust $wanted or newer is needed and rustc is not on the path. $(rust_advice)"
  fi
  if [ "$(printf '%s\n' "$wanted" "$found" | sort --version-sort | head -n 1)" != "$wanted" ]; then
    fail "Rust $wanted or newer is needed; this is $found. $(rust_advice)"
  fi
}

rust_advice() {
  echo "Get it with rustup: the Debian package 'rustup' (Debian 13 and later), then 'rustup default stable'; or from rust-lang.org."
}

# rust_component NAME SUBCOMMAND: a part of the toolchain that minimal installs leave out.
rust_component() {
  cargo "$2" --version >/dev/null 2>&1 && return
  command -v rustup >/dev/null || fail "cargo $2 is missing: install $1 the way Rust was installed"
  say "installing $1 ($2)"
  rustup component add "$1"
}

# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by check-series and emit-series: what a recipe changes, and the source it changes. Sets $here, $root, $cache,
# and after read_recipe NAME also $rooms, $groups, $fragments, $has_engine.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cache=${CEASEFIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ceasefire}
author='Ceasefire developers <devel@ceasefire.invalid>'

fail() {
	echo "error: $1" >&2
	[ -z "${2:-}" ] || echo "  remedy: $2" >&2
	exit "${3:-1}"
}

read_recipe() {
	local recipe=$here/kernels/$1.toml group
	[ -f "$recipe" ] || fail "there is no kernel named '$1'" 'ceasefire lab list shows all' 2
	words() { sed -n "s/^$1 = \[\(.*\)\]\$/\1/p" "$recipe" | tr -d '",'; }
	read -ra rooms <<<"$(words overlay)"
	read -ra groups <<<"$(words series)"
	read -ra fragments <<<"$(words fragments)"
	has_engine=$(sed -n 's/^engine = //p' "$recipe")
	for room in "${rooms[@]}"; do
		[ -d "$here/overlay/$room" ] || fail "kernel $1 wants the overlay '$room', and there is no kernel/overlay/$room"
	done
	for group in "${groups[@]}"; do
		[ -n "$(patches_of "$group")" ] || fail "kernel/patches/series has no patch of the group '$group'" \
			"add a line \"# group: $group\" above its patches"
	done
}

patches_of() {
	awk -v wanted="$1" '/^# *group:/ { group = $NF; next } /^#/ || !NF { next } group == wanted { print $1 }' \
		"$here/patches/series"
}

all_patches() { for group in "${groups[@]}"; do patches_of "$group"; done; }

find_source() {
	local version
	version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/BASE.toml" | head -n 1)
	local found=("$cache"/source/linux-source-*_"$version"-*/*.deb)
	[ -f "${found[0]}" ] || fail "Linux $version is not in $cache" "run 'make build' first" 4
	source_deb=${found[0]}
}

# What mm/ and arch/x86/mm/ need no file of: two thirds of the source. Patches to these places need a full build.
lean=(--exclude='*/drivers/*/*.[chS]' --exclude='*/sound/*/*.[ch]' --exclude='*/net/*/*.c' --exclude='*/arch/[!x]*/*.[chS]'
	--exclude='*/arch/xtensa/*.[chS]')

# unpack_source TREE [OPTION...]: all of it, or what options of tar choose. What neither configures nor compiles on x86 stays packed.
unpack_source() {
	local tree=$1 tarball
	shift
	tarball=$(sed -n 's/^tarball = "\(.*\)"/\1/p' "$here/BASE.toml")
	mkdir -p "$tree"
	dpkg-deb --fsys-tarfile "$source_deb" | tar -xO "./$tarball" | xz -dc -T0 |
		tar -x -C "$tree" --strip-components=1 --exclude='*/Documentation/*/*' --exclude='*/arch/*/boot/dts' \
			--exclude='*/drivers/gpu/drm/amd/include' --exclude='*/tools/perf' --exclude='*/tools/testing' "$@"
}

# Existing files that the patches change.
touched() {
	local patch
	while read -r patch; do sed -n 's,^--- a/\([^\t]*\).*,\1,p' "$here/patches/$patch"; done < <(all_patches) | sort -u
}

lay_room() { cp -r "$here/overlay/$1/." "$2"; }

lay_engine() {
	mkdir -p "$1/mm/abis/engine"
	cp "$root/engine/engine.c" "$root/engine/engine.h" "$1/mm/abis/engine/"
}

# start_repository DIR TREE: a repository of the touched files alone; the overlay's rooms become commits of their own.
start_repository() {
	local dir=$1 tree=$2 file room
	mkdir -p "$dir"
	while read -r file; do
		# A file that a patch before this one adds is not there yet.
		[ ! -f "$tree/$file" ] || (cd "$tree" && cp --parents "$file" "$dir")
	done < <(touched)
	git -C "$dir" init --quiet --initial-branch=series
	git -C "$dir" config user.name "${author% <*}"
	git -C "$dir" config user.email devel@ceasefire.invalid
	git -C "$dir" config commit.gpgsign false
	commit "$dir" 'base'
	git -C "$dir" tag base
	[ "$has_engine" != true ] || {
		lay_engine "$dir"
		commit "$dir" "$(grep -v '^#' "$here/overlay/engine.message")"
	}
	for room in "${rooms[@]}"; do
		lay_room "$room" "$dir"
		commit "$dir" "$(grep -v '^#' "$here/overlay/$room.message")"
	done
}

# The same files give the same commits.
commit() {
	git -C "$1" add -A
	GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000' git -C "$1" commit --quiet --signoff -m "$2"
}

# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by kernel/tree, kernel/export, kernel/check-series and kernel/emit-series: what a recipe changes, the source it
# changes, and both as a git repository. Sets $here, $root, $cache, and after read_recipe NAME also $base, $mechanisms
# and $fragments.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cache=${CEASEFIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ceasefire}

fail() {
	echo "error: $1" >&2
	[ -z "${2:-}" ] || echo "  remedy: $2" >&2
	exit "${3:-1}"
}

# A mechanism without a recipe of its own is added to the plain kernel (lab/artifacts/src/recipe.rs).
read_recipe() {
	local recipe=$here/recipes/$1.toml mechanism own=
	if [ ! -f "$recipe" ] && [ -f "$here/$1/mechanism.toml" ]; then
		recipe=$here/recipes/vanilla.toml own=$1
	fi
	[ -f "$recipe" ] || fail "there is no kernel named '$1'" 'ceasefire lab list shows all' 2
	value() { sed -n "s/^$1 = //p" "$recipe" | tr -d '",[]'; }
	base=$(value base)
	read -ra mechanisms <<<"$(value mechanisms)"
	read -ra fragments <<<"$(value config)"
	if [ -n "$own" ]; then
		mechanisms+=("$own")
		[ ! -f "$here/$own/config/$own.config" ] || fragments+=("$own")
	fi
	for mechanism in "${mechanisms[@]}"; do
		[ -d "$here/$mechanism" ] || fail "kernel $1 wants the mechanism '$mechanism', and there is no kernel/$mechanism"
	done
}

# base_value KEY: the first of that name
base_value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$here/bases/$base/base.toml" | head -n 1; }

# fragment NAME: its file, with the base, with the one that it has its fragments from, or with a mechanism
fragment() {
	local room lender
	lender=$(base_value fragments)
	for room in "bases/$base" ${lender:+"bases/$lender"} "${mechanisms[@]}"; do
		[ ! -f "$here/$room/config/$1.config" ] || { echo "$here/$room/config/$1.config"; break; }
	done
}

# variant_of MECHANISM: the directories of its patches that are others because of the base or of one that comes before
variant_of() {
	local earlier
	for earlier in "$base" "${mechanisms[@]}"; do
		[ "$earlier" != "$1" ] || break
		[ ! -d "$here/$1/hooks-on-$earlier" ] || echo "$here/$1/hooks-on-$earlier"
	done
}

# hooks MECHANISM: its patches, in order. A variant takes the place of the one of its name; an empty one leaves it out.
hooks() {
	local dirs name path dir
	mapfile -t dirs < <(echo "$here/$1/hooks"; variant_of "$1")
	# A mechanism that Linux has by itself has none.
	{ find "${dirs[@]}" -name '*.patch' -printf '%f\n' 2>/dev/null || :; } | sort -u | while read -r name; do
		for dir in "${dirs[@]}"; do [ ! -f "$dir/$name" ] || path=$dir/$name; done
		[ ! -s "$path" ] || echo "$path"
	done
}

find_source() {
	local found
	found=("$cache"/source/"$(base_value package)"_"$(base_value version)"-*/*.deb)
	[ -f "${found[0]}" ] || fail "Linux $(base_value version) is not in $cache" "run 'make build' first" 4
	source_deb=${found[0]}
}

# What mm/ and arch/x86/mm/ need no file of: two thirds of the source.
lean=(--exclude='*/drivers/*/*.[chS]' --exclude='*/sound/*/*.[ch]' --exclude='*/net/*/*.c' --exclude='*/arch/[!x]*/*.[chS]'
	--exclude='*/arch/xtensa/*.[chS]')

# unpack_source TREE [OPTION...]: all of it, or what options of tar choose. What neither configures nor compiles on x86 stays packed.
unpack_source() {
	local tree=$1
	shift
	mkdir -p "$tree"
	dpkg-deb --fsys-tarfile "$source_deb" | tar -xO "./$(base_value tarball)" | xz -dc -T0 |
		tar -x -C "$tree" --strip-components=1 --exclude='*/Documentation/*/*' --exclude='*/arch/*/boot/dts' \
			--exclude='*/drivers/gpu/drm/amd/include' --exclude='*/tools/perf' --exclude='*/tools/testing' "$@"
}

# Existing files that the hooks change.
touched() {
	local mechanism
	for mechanism in "${mechanisms[@]}"; do
		hooks "$mechanism" | xargs -r sed -n 's,^--- a/\([^\t]*\).*,\1,p'
	done | sort -u
}

# lay MECHANISM TREE: its files, and the engine's that it compiles
lay_engine() {
	[ -d "$root/engine/$1" ] || return 0
	mkdir -p "$2/mm/$1/engine"
	cp "$root/engine/$1/"*.[ch] "$2/mm/$1/engine/"
}
# One that Linux has itself has no files.
lay_files() { [ ! -d "$here/$1/files" ] || cp -r "$here/$1/files/." "$2"; }

# commit DIR MESSAGE: the same files give the same commit
commit() {
	git -C "$1" add -A
	GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000' git -C "$1" commit --quiet --signoff -m "$2"
}

# start_repository DIR: of the source that lies there, a branch "series": a commit for the source, one for the new files of
# each mechanism (and of its engine), one for each hook.
start_repository() {
	local dir=$1 mechanism
	git -C "$dir" init --quiet --initial-branch=series
	git -C "$dir" config user.name 'Ceasefire developers'
	git -C "$dir" config user.email devel@ceasefire.invalid
	git -C "$dir" config commit.gpgsign false
	git -C "$dir" config gc.auto 0
	commit "$dir" "$base"
	git -C "$dir" tag base
	for mechanism in "${mechanisms[@]}"; do
		if [ -d "$root/engine/$mechanism" ]; then
			lay_engine "$mechanism" "$dir"
			commit "$dir" "$(grep -v '^#' "$here/$mechanism/engine.message")"
		fi
		[ -d "$here/$mechanism/files" ] || continue
		lay_files "$mechanism" "$dir"
		commit "$dir" "$(grep -v '^#' "$here/$mechanism/files.message")"
	done
	git -C "$dir" tag files
	for mechanism in "${mechanisms[@]}"; do
		hooks "$mechanism" | xargs -r git -C "$dir" am --quiet --committer-date-is-author-date >"$dir/.git/am.log" 2>&1 || {
			cat "$dir/.git/am.log" >&2
			fail "git am refuses the hooks of $mechanism"
		}
	done
	git -C "$dir" tag exported
}

# touched_repository DIR TREE: the same with nothing of the source but what the hooks change
touched_repository() {
	mkdir -p "$1"
	(cd "$2" && { touched; echo .gitattributes; } | xargs cp --parents -t "$1")
	start_repository "$1"
}

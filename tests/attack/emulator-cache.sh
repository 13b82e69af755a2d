#!/bin/sh
# The cache of emulated kernels: whatever becomes of its entries, a run ends
# with the losses that it has without a cache, and the next one is whole again.
. "${top_srcdir:?}/tests/lib.sh"
need compiler
toy_gpu
# one kind of code, and so one entry
export LLMC_CACHE="$tmp/cache" LLMC_EMULATE_CHECK=0

# trained WHAT: as it should be, with one entry in the cache behind it
trained()
{
	timeout 600 "$rank" train --local --device emulate --data draw \
		--steps 2 >out 2>err || bad "$1: exit status $?" || return
	sed -n 's/^\(step .*\) [0-9.]* tokens.*/\1/p' out | cmp -s - wanted ||
		bad "$1: other losses"
	set -- "$1" cache/*
	[ $# -eq 2 ] && [ -f "$2" ] && [ ! -h "$2" ] ||
		bad "$1: not one entry: $*"
}

timeout 600 "$rank" train --local --device emulate --data draw --steps 2 \
	>out 2>err || fail 'a run without damage'
sed -n 's/^\(step .*\) [0-9.]* tokens.*/\1/p' out >wanted
[ "$(wc -l <wanted)" -eq 2 ] || fail 'there are not two steps'
set -- cache/*
[ $# -eq 1 ] || fail "not one entry: $*"
entry=$1
cp "$entry" whole
size=$(wc -c <whole)

# It is loaded, and not made again.
touch -d '1 hour ago' "$entry"
trained 'untouched'
cmp -s whole "$entry" || bad 'an entry that is whole was made again'
[ -z "$(find "$entry" -mmin +30)" ] || bad 'an entry in use looks old'

# flipped PLACE: a byte is another one
flipped()
{
	cp whole "$entry"
	was=$(od -An -tu1 -j "$1" -N1 whole)
	# shellcheck disable=SC2059 # an octal number
	printf "\\$(printf %o $((was ^ 255)))" |
		dd of="$entry" bs=1 seek="$1" conv=notrunc 2>/dev/null
	cp "$entry" flipped
	trained "byte $1 of $size flipped"
	# a compiler need not write the same bytes twice
	! cmp -s flipped "$entry" ||
		bad "byte $1: what is damaged was taken, and is left"
}

flipped 3
flipped $((size / 2))
flipped $((size - 1))
head -c $((size / 2)) whole >"$entry"
trained 'cut in half'
: >"$entry"
trained 'empty'
cp whole elsewhere
rm "$entry"
ln -s "$tmp/elsewhere" "$entry"
trained 'a link'
cmp -s whole elsewhere || bad 'something was written behind a link'
chmod g+w "$entry"
trained 'others may write it'
[ -z "$(find "$entry" -perm /022)" ] || bad 'others may still write it'
rm -r cache
trained 'no cache'
chmod a-rwx cache
[ -r cache ] || {
	timeout 600 "$rank" train --local --device emulate --data draw \
		--steps 2 >out 2>err || bad 'a cache that cannot be read'
}
chmod u+rwx cache

if have attacks; then
	rm -f "$entry"
	mkdir "$entry"
	timeout 600 "$rank" train --local --device emulate --data draw \
		--steps 2 >out 2>err || bad 'a folder in the place of an entry'
	rmdir "$entry"
	if [ "$(id -u)" -eq 0 ]; then
		cp whole "$entry"
		chown 12345 "$entry"
		trained "another user's"
		[ -z "$(find "$entry" -user 12345)" ] ||
			bad "another user's was taken"
	fi
	i=0
	while [ $i -lt 50 ]; do
		flipped $((size * i / 50))
		head -c $((size * i / 50)) whole >"$entry"
		trained "cut at $((size * i / 50))"
		i=$((i + 1))
	done
fi
exit $failed

#!/bin/sh
# A plan that keeps the optimizer's state on the host, or activations: the same
# programs and numbers, their bytes counted apart, and their way over the link
# paid for.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-7b.llm
big=$examples/llama-2-70b.llm

# The programs differ in what the plan says and in nothing else.
for o in none optimizer activations; do
	set -- --pin "pp=2,microbatch=1,zero=1,dp=2,offload=$o" \
		"$examples/tiny-dense.llm"
	run --emit=ranks "$@" -o $o.ir
	run eval --compare --steps 2 "$@" -o $o
	grep -v '^set plan.offload' $o.ir >$o.text
done
for o in optimizer activations; do
	cmp none $o || bad 'other numbers'
	cmp none.text $o.text || bad 'other programs'
done
grep -q '^set plan.offload = optimizer' optimizer.ir ||
	bad 'rank programs do not say so'

# of_rank FILE KEY: of the pipeline's rank 1
of_rank()
{
	sed -n "s/^ *{\"rank\": 1, .*\"$2\": \\([0-9]*\\).*/\\1/p" "$1"
}

of_rank0()
{
	sed -n "s/^ *{\"rank\": 0, .*\"$2\": \\([0-9]*\\).*/\\1/p" "$1"
}

# What one rank keeps is what its host keeps.
for o in none optimizer activations; do
	run --emit=memory-json --pin "pp=2,tp=4,microbatch=1,offload=$o" \
		"$model" -o $o.json
done
kept=$(of_rank none.json optimizer_bytes)
[ "$kept" -gt 0 ] || bad 'nothing is kept'
[ "$(of_rank none.json host_bytes)" = 0 ] || bad 'on the host unasked'
[ "$(of_rank optimizer.json host_bytes)" = "$kept" ] || bad 'other bytes'
[ "$(of_rank optimizer.json optimizer_bytes)" = 0 ] || bad 'still on the device'
[ $(($(of_rank none.json total_bytes) - kept)) -eq \
	"$(of_rank optimizer.json total_bytes)" ] || bad 'another total'

# Of activations, what layers save: two layers at a time are on the device.
kept_saves=$(of_rank activations.json host_bytes)
[ $(($(of_rank none.json saved_bytes) - kept_saves)) -eq \
	"$(of_rank activations.json saved_bytes)" ] || bad 'other saves'
window=$(($(of_rank activations.json temp_bytes) - \
	$(of_rank none.json temp_bytes)))
[ $((window * 8)) -eq "$kept_saves" ] ||	# 16 layers of one microbatch
	bad "a window of $window bytes of $kept_saves"

# update TARGET PINS: milliseconds of it
update()
{
	printf 'plan { microbatch = 1; %s; }\n' "$2" | tr , ';' >p.llp
	"$LLMC" --emit=cost --target "$1" --plan p.llp "$model" |
		sed -n 's/.*the update takes \([0-9.]*\) ms.*/\1/p'
}

# Both ways over 64 GB/s, and the norm before it; both stages are alike.
plain=$(update h100x8 pp=2,tp=4,offload=none)
moved=$(update h100x8 pp=2,tp=4,offload=optimizer)
awk -v plain="$plain" -v moved="$moved" -v bytes="$kept" 'BEGIN {
	link = 2 * bytes / 64e6
	printf "%g ms, on the host %g ms, the link %g ms\n", plain, moved, link
	exit !(plain > 0 && moved > link && moved < link + plain)
}' || bad 'another price'

# A link as fast as memory hides behind the update; without one it is refused.
sed 's/host = 64/host = 100000/' "$top_srcdir/targets/h100-sxm.target" >t
sed 's/host = 64/host = 0/' "$top_srcdir/targets/h100-sxm.target" >u
for f in t u; do
	cmp -s "$f" "$top_srcdir/targets/h100-sxm.target" && exit 99
	mv "$f" "$f.target"
done
plain=$(update t.target offload=none)
moved=$(update t.target offload=optimizer)
[ -n "$plain" ] && [ "$moved" = "$plain" ] || bad 'a fast link is waited for'
refused 'host` is 0' --emit=cost --target u.target --plan p.llp "$model"

# Of activations, forward and backward: each takes as long as the longer of its
# kernels and the link.
cat >deep.llp <<'EOF'
plan { tp = 8; microbatch = 1; offload = (activations); }
EOF
sed 's/(activations)/none/' deep.llp >plain.llp
run --emit=memory-json --plan deep.llp "$model" -o deep.json
bytes=$(of_rank0 deep.json host_bytes)
for f in plain deep; do
	run --target h100x8 --plan $f.llp --emit=answer-json "$model"
	cp out $f.out
done
awk -v bytes="$bytes" -v moved="$(field deep.out host_transfers_us)" \
	-v plain="$(field plain.out us)" -v deep="$(field deep.out us)" '
BEGIN {
	link = 1024 * 2 * bytes / 64e3	# us: batch, both ways
	printf "%g us over the link of %g; %g us longer\n", moved, link,
		deep - plain
	exit !(moved > 0.999 * link && moved < 1.001 * link &&
		deep > plain && deep - plain < moved && deep > moved)
}' || bad 'another price of activations'
sed 's/^target.*/&  devices = 8;/' t.target >fast.target
for f in plain deep; do
	run --target fast.target --plan $f.llp --emit=cost "$model" -o $f.cost
done
cmp plain.cost deep.cost || bad 'a fast link is waited for'

# ---- the answer shows it: in the split, the time and the memory

# keeps WHERE OFFLOAD: a whole plan
keeps()
{
	echo "plan { pp = 2; tp = 4; microbatch = 1; offload = $2; }" >"$1"
}

# shows PATTERN..: the answer has such lines, and none if there is a ! before
shows()
{
	for pattern; do
		case $pattern in
		!*) ! grep -q -e "${pattern#!}" out ;;
		*) grep -q -e "$pattern" out ;;
		esac || bad "the answer: $pattern"
	done
}

keeps here.llp none
keeps there.llp optimizer
run --target h100x8 --plan here.llp "$model"
shows '!offload' '!host'
run --target h100x8 --plan there.llp "$model"
shows '^ .*offload optimizer to the host' '!-o plans without' \
	'^  host transfers  *[0-9.]* ms .*, [0-9.]* ms more hidden$' \
	'^GiB on pp .* total  *host$' '^  1  .* 9\.41\( fullest\)*$' \
	'^  the host of a node keeps 75.32 GiB of optimizer state; .* left'

# What hides behind the update is no part of the step, and is said to.
run --target fast.target --plan there.llp "$model"
shows '^  host transfers  *0.000 ms   0.0%, [0-9.]*[1-9] ms more hidden'

run --target h100x8 --plan there.llp --emit=answer-json "$model"
all=$(awk -F'[:,]' '/"host_bytes"/ && n++ { all += 4 * $2 }
	END { printf "%.0f", all }' out)
[ "$(field out host_bytes)" = "$all" ] || bad "not the $all of its ranks"
grep -q '"offload": "optimizer"' out || bad 'no offload in plan.json'
run diff here.llp there.llp "$model" --target h100x8
shows '^offload .*none .*optimizer' '^  host transfers ' '^on its host, GiB '
run --target h100x8 --pin offload=none --why-not offload=optimizer "$model"
shows '^  host transfers ' '^on its host, GiB '

# ---- a host has memory, and what a target says of it is held to

# of_host GB: a node of eight h100, whose host has so much for each
of_host()
{
	sed "s/host_memory = [0-9]*/host_memory = $1/
		s/^target.*/&  devices = 8;/" \
		"$top_srcdir/targets/h100-sxm.target" >host.target
}

kept_gb=$(awk -v b="$kept" 'BEGIN { printf "%.6f", b / 1e9 }')
less=$(awk -v g="$kept_gb" 'BEGIN { printf "%.6f", g * 0.999 }')
more=$(awk -v g="$kept_gb" 'BEGIN { printf "%.6f", g * 1.001 }')
of_host "$more"
run --target host.target --plan there.llp "$model"
shows '^  the host of a node keeps 75.32 GiB .* left$'
run --target host.target --pin pp=2,tp=4,offload=optimizer "$model"
of_host "$less"
run --target host.target --plan there.llp "$model"
shows '^  the host of a node keeps 75.32 GiB .* TOO LITTLE$'
run --target host.target --plan there.llp --emit=answer-json "$model"
grep -q '"fits": false' out || bad 'it fits a host that has less'
refused "what is offloaded to hosts needs " --target host.target \
	--pin pp=2,tp=4,offload=optimizer "$model"
grep -q "of a node's .host_memory. (pp=2 tp=4, zero 0)" err &&
	grep -q 'one fits without offload=optimizer' err ||
	bad 'it is not said what would help'

# Eight ranks keep eight times the same, unless ZeRO has each keep an eighth.
of_host "$more"
refused "what is offloaded to hosts needs " --target host.target \
	--pin dp=8,zero=0,offload=optimizer "$model"
run --target host.target --pin dp=8,offload=optimizer "$model"
shows '^  the host of a node keeps .* left$' 'zero 1'

# ---- state on drives: slower, and a limit of its own

to_nvme=pp=2,tp=4,offload=optimizer,offload_to=nvme
echo "plan { $to_nvme; }" | tr , ';' >nvme.llp
moved=$(update h100x8 pp=2,tp=4,offload=optimizer,offload_to=nvme)
awk -v plain="$(update h100x8 pp=2,tp=4,offload=none)" -v moved="$moved" \
	-v bytes="$kept" 'BEGIN {
	link = 2 * bytes / 4e6
	printf "%g ms, the drives %g ms\n", moved, link
	exit !(moved > link && moved < link + plain)
}' || bad 'another price of drives'
run --emit=plan --plan nvme.llp "$model"
shows '^  offload = optimizer;$' '^  offload_to = nvme;$'
run --target h100x8 --plan nvme.llp "$model"
shows '^ .*offload optimizer to NVMe$' '!the host of a node' \
	'^  the NVMe of a node keeps 75.32 GiB of optimizer state; .* left$'
run --target h100x8 --plan nvme.llp --emit=answer-json "$model"
[ "$(field out drives_bytes)" = "$all" ] || bad "not the $all of its ranks"
grep -q '"offload": "optimizer@nvme"' out || bad 'no drives in plan.json'
refused '`nvme` is 0' --target rtx4090x8 --pin $to_nvme "$model"
refused 'offload = optimizer is legal, or offload_to = host' --target h100x8 \
	--pin offload_to=nvme "$model"
refused 'offload = parameters is legal, or parameters_to = host' \
	--target h100x8 --pin offload=optimizer,parameters_to=nvme "$model"
of_host 250
sed -i 's/nvme_memory = [0-9]*/nvme_memory = 10/' host.target
refused 'of a node'"'"'s `nvme_memory` (pp=2 tp=4, zero 0)' \
	--target host.target --pin $to_nvme "$model"

# Where the memory of hosts is too small, and nothing fits without.
if have time; then
	of_host 20
	run --target host.target "$examples/llama-3-70b.llm"
	shows 'offload optimizer to NVMe' \
		'^  the NVMe of a node keeps .* left$'
	sed -i '/nvme/d' host.target
	refused 'of a node'"'"'s `host_memory`' --target host.target \
		"$examples/llama-3-70b.llm"
fi

# ---- weights and gradients of layers, which pass through two layers of room

here=
for o in none parameters; do
	run --emit=memory-json --pin "pp=2,tp=4,microbatch=1,offload=$o" \
		"$model" -o $o.json
	of_layers=$(of_rank0 $o.json host_bytes)
	there=$(($(of_rank0 $o.json weight_bytes) + \
		$(of_rank0 $o.json gradient_bytes)))
	here=${here:-$there}
done
[ $((here - there)) -eq "$of_layers" ] || bad 'other weights and gradients'
window=$(($(of_rank0 parameters.json temp_bytes) - \
	$(of_rank0 none.json temp_bytes)))
[ $((window * 8)) -eq "$of_layers" ] ||	# 16 layers
	bad "a window of $window bytes of $of_layers"
cat >stream.llp <<'EOF'
plan { tp = 8; microbatch = 4; offload = (parameters); }
EOF
sed 's/(parameters)/none/' stream.llp >plain.llp
run --emit=memory-json --plan stream.llp "$model" -o stream.json
for f in plain stream; do
	run --target h100x8 --plan $f.llp --emit=answer-json "$model"
	cp out $f.out
done
# Weights twice for each of 256 microbatches, gradients to and fro; both to and
# fro in the update, and gradients once more for their norm.
awk -v half="$(($(of_rank0 stream.json host_bytes) / 2))" \
	-v moved="$(field stream.out host_transfers_us)" \
	-v plain="$(field plain.out us)" -v deep="$(field stream.out us)" '
BEGIN {
	link = (256 * 4 + 4) * half / 64e3
	printf "%g us over the link of %g; %g us longer\n", moved, link,
		deep - plain
	exit !(moved > 0.999 * link && moved < 1.001 * link &&
		deep > plain && deep - plain < moved)
}' || bad 'another price of parameters'

# Of a model without layers nothing would move.
sed 's/repeat layers as i { \(x = block(x) *@\) "model.layers.{i}"; }/\1 "b";/' \
	"$examples/tiny-moe.llm" >flat.llm
grep -q '  x = block(x) *@ "b";' flat.llm || bad 'there is a repeat'
for offload in parameters activations optimizer+parameters; do
	refused "--pin:1:1: error: \`offload\` is $offload, and this model has no" \
		--target h100x1 --pin "offload=$offload" flat.llm
done

# Without, this model has no plan on one small device, whose host has room; what
# no target says of its host is not counted on.
"$LLMC" target rtx4090x1 | sed 's/ host = .*/&\n  host_memory = 128;/' >small.target
run --target small.target "$model"
shows 'offload optimizer and parameters to the host' '-o plans without' \
	'^  the host of a node keeps .* of state, weights and gradients; .* left'
run --target small.target --emit=answer-json "$model"
grep -q '"offload": "optimizer+parameters"' out || bad 'not in plan.json'
refused "of a node's \`host_memory\`" --target small.target \
	--pin offload=optimizer+parameters "$big"
refused 'alone need' --target rtx4090x1 "$model"
grep -q 'does not say what memory its hosts have' err || bad 'it is not asked'

# On drives they pass through the host: these take longer than the link.
sed 's/(parameters)/&; parameters_to = nvme/' stream.llp >drives.llp
run --target h100x8 --plan drives.llp --emit=answer-json "$model"
[ "$(field out drives_bytes)" = "$(field stream.out host_bytes)" ] ||
	bad 'other bytes on drives'
awk -v moved="$(field out host_transfers_us)" \
	-v host="$(field stream.out host_transfers_us)" 'BEGIN {
	printf "%g us by the host, %g us by drives\n", host, moved
	exit !(moved > 15.999 * host && moved < 16.001 * host)	# 64, 4 GB/s
}' || bad 'another price of parameters on drives'
run --emit=plan --plan drives.llp "$model"
shows '^  offload = parameters;$' '^  parameters_to = nvme;$'
run --emit=memory --plan drives.llp "$model"
shows "^on the host's drives, weights " "^on the host's drives, gradients "
refused '`parameters_to` is nvme, and the target has no drives' \
	--target rtx4090x8 --pin offload=parameters,parameters_to=nvme "$model"

# drives_of GB GB: a small device, the memory of whose host and drives is this
drives_of()
{
	"$LLMC" target rtx4090x1 | sed "s/ host = .*/& host_memory = $1;/
		s/host_memory = .*/& nvme = 6; nvme_memory = $2;/" >small.target
}

# What searches of large models find is not the matter of sanitizers.
have time || exit $failed

# What neither device nor host has room for goes to drives: state first, as it
# moves least often; no other place of both is quicker.  Of all these searches one
# of three is made on each day.
for places in '300 900 optimizer@nvme[+]parameters' \
	'64 2000 optimizer@nvme[+]parameters@nvme' \
	'850 300 optimizer[+]parameters@nvme'; do
	today 3 || continue
	set -- $places
	drives_of "$1" "$2"
	run --target small.target --emit=answer-json "$big"
	grep -Eq "\"offload\": \"$3([+]activations)?\"" out || bad "not $3"
	best=$(field out us)
	for state in host nvme; do
		for params in host nvme; do
			"$LLMC" --target small.target --emit=answer-json --pin \
				"offload=optimizer+parameters,offload_to=$state,parameters_to=$params" \
				"$big" >other 2>err || continue
			awk -v a="$(field other us)" -v b="$best" \
				'BEGIN { exit !(a >= b * 0.9999) }' ||
				bad "$state and $params are quicker than $3"
		done
	done
done
if today 3; then
	drives_of 64 900
	refused 'no plan fits small.target' --target small.target "$big"
fi

# The best plan of this one offloads, unless no host has memory for that.
if today 3; then
	run --target h100x8x8 "$big"
	shows 'offload optimizer' '^  the host of a node keeps .* left$'
fi
# One with a link as fast as that of a Grace Hopper keeps activations, too.
if today 3; then
	of_host 250
	sed -i 's/host = 64/host = 450/; s/^target.*/& nodes = 8;/' host.target
	run --target host.target "$big"
	shows 'offload optimizer and activations to the host' \
		'^  the host of a node keeps .* of state and activations; .* left$'
fi
if today 3; then
	of_host 8
	sed -i 's/^target.*/& nodes = 8;/' host.target
	run --target host.target "$big"
	shows '!offload'
fi
exit $failed

#!/bin/sh
# --target DEVICExDEVICESxNODES: an x may be the name's own, and a name that
# nobody knows is printed whole, with the nearest one that there is.
. "${top_srcdir:?}/tests/lib.sh"

# is DEVICE DEVICES NODES TEXT: that is what the text means
is()
{
	run target "$4"
	grep -q "^target $1 {" out && grep -qx "  devices = $2;" out &&
		grep -qx "  nodes = $3;" out || bad "$4 is another target"
}

is mi250x 1 1 mi250x
is mi250x 8 1 mi250xx8
is mi250x 4 2 mi250xx4x2
is rtx4090 8 2 rtx4090x8x2
is a100_pcie 8 2 a100-pciex8x2
is rtx2080ti 8 1 rtx2080tix8
is ascend_910b 8 2 ascend-910bx8x2

# unknown NAME NEAREST TEXT: so it is refused
unknown()
{
	refused "there is no accelerator \`$1\` (did you mean \`$2\`?); --list-targets" \
		target "$3"
}

unknown rtx6090 rtx3090 rtx6090
unknown 4090 rtx4090 4090x4
unknown rtx6090 rtx3090 rtx6090x8
unknown rtx6090 rtx3090 rtx6090x8x2
unknown rtx6090 rtx3090 rtx6090x8x2@ib400
unknown mi350x mi250x mi350x
unknown mi350x mi250x mi350xx8
unknown mi350x mi250x mi350xx8x4
unknown b400 b200 b400x8
unknown H100 h100 H100x8
unknown rtx50 rtx5090 rtx50x8
unknown tpu-v6 tpu-v6e tpu-v6x4
unknown h10 h100 h10x8

run --list-targets
for name in "$examples"/../targets/*.target; do
	name=${name##*/}
	grep -qx "${name%.target}" out || bad "--list-targets leaves out $name"
done

# Nothing is near: no number is taken for one.
for name in x x8 foox8 foox8x2 rt \
	"$(printf 'x8%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)" \
	"$(head -c 100000 /dev/zero | tr '\0' h)"; do
	refused "there is no accelerator \`$name\`; --list-targets" \
		target "$name"
done

for name in h100x h100xx8 h100x8x h100x8x8x h100x8x8x8 mi250xx '' @ib400 \
	h100@ h100x8@ib400@; do
	refused "\`$name\` is no target: a target is DEVICE, DEVICExDEVICES" \
		target "$name"
done
"$LLMC" target h100x8 -o own.target
refused 'note: ./own.target is there: `devices` and `nodes` of a cluster' \
	target ./own.targetx8x2
refused '`0` is no number of devices, which is a whole number from 1' \
	target h100x0
refused '`1.5` is no number of nodes, which' target h100x8x1.5
exit $failed

#!/bin/sh
# The loop of a contraction in tiles of AMX: of each step both panels are loaded
# once and multiplied 2 by 2, a tile is loaded anew behind its last product, with
# three others under way, and all lines of a step to come are asked for.  No CPU
# with AMX is needed: what LLVM is given is read.
. "${top_srcdir:?}/tests/lib.sh"
need llvm

cat >model.llm <<'END'
model m {
  dim hidden = 512, ffn = 512, vocab = 512, seq = 512;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)               @ "e";
  x = linear(linear(x -> ffn) @ "i" -> hidden)     @ "o";
  loss = cross_entropy(linear(x -> vocab) @ "h", labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
END

for cpu in sapphirerapids x86-64-v3+amx-tile+amx-bf16; do
	run -w --no-whole --target cpux1 --cpu $cpu --emit=llvm model.llm
	awk '
		function judge(	i) {
			for (i = 1; i <= loads; i++) {
				late += before[i] == wanted[tile[i]]
			}
			if (products && again) {
				loops++
				# the last columns of a result may be half a panel
				if (!(products == 4 && loads == 4 ||
				      products == 2 && loads == 3) ||
				    late != loads || lines != 64) {
					print products, loads, late, lines
					wrong = 1
				}
				whole += products == 4
			}
			products = loads = late = lines = again = 0
			split("", wanted)
		}
		/^[^ ;].*:/ || /^}/ {
			judge()
			label = $1
			sub(":.*", "", label)
		}
		/call .*tdpbf16ps\(/ {
			gsub(/[(),]/, " ")
			products++
			wanted[$(NF - 2)]++
			wanted[$NF]++
		}
		/call .*tileloadd64\(/ {
			sub(/.*\(i8 /, "")
			tile[++loads] = $1 + 0
			before[loads] = wanted[$1 + 0]
		}
		/call .*prefetch/ { lines++ }
		/br i1/ && index($0 ",", "%" label ",") { again = 1 }
		END {
			judge()
			print loops + 0, "loops,", whole + 0, "of whole panels"
			exit wrong || !whole
		}' out >said ||
		bad "$cpu: products, loads, late ones, lines: $(cat said)"
done
exit $failed

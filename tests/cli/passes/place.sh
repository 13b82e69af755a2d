#!/bin/sh
# What `place` finds on real models, given only which dims an axis may split:
# the collectives of one iteration, in order, as `where op axes dims`.
. "${top_srcdir:?}/tests/lib.sh"

# place MODEL PINS: the placed program in `ir', its collectives in `colls'
place()
{
	run --passes=train,place --verify-each --emit=ir --pin "$2" \
		"$examples/$1.llm" -o ir || exit
	run opt ir && cmp out ir || fail "$what: it does not read back"
	awk '/^layer update/ { where = "update" }
		/^model/ { where = "top" }
		/ repeat .* reverse/ && where != "update" { where = "backward" }
		/ repeat / && where == "top" { where = "forward" }
		/^  yield/ { where = "top" }
		/^  }/ && where != "update" { where = "top" }
		match($0, / on=(\([^)]*\)|[a-z]+)( of=[a-z]+)?( to=[a-z]+)?/) {
			on = substr($0, RSTART, RLENGTH)
			op = $3
			print where, op on
		}' ir >colls
}

# want WHERE: the collectives of that part are what standard input says
want()
{
	sed -n "s/^$1 //p" colls >found
	diff - found || bad "$what, $1"
}

# has TEXT: some line of the placed program contains it
has()
{
	grep -qF -- "$1" ir || bad "$what: no line has \`$1'"
}

what='llama-2-70b, tensor'
place llama-2-70b tp=8,microbatch=1
# columns, then rows, and one all-reduce for each half of a block
has 'self_attn.q_proj.weight" init=normal : bf16[heads:tp, hd, hidden]'
has 'self_attn.o_proj.weight" init=normal : bf16[hidden, heads:tp, hd]'
has 'mlp.up_proj.weight" init=normal : bf16[ffn:tp, hidden]'
has 'mlp.down_proj.weight" init=normal : bf16[hidden, ffn:tp]'
want forward <<'END'
all_reduce on=tp
all_reduce on=tp
END
want backward <<'END'
all_reduce on=tp
all_reduce on=tp
END
# embedding, logits, cross-entropy and its log-sum-exp split by vocabulary
want top <<'END'
all_reduce on=tp
cross_entropy on=tp
log_sum_exp on=tp
all_reduce on=tp
END
has 'model.embed_tokens.weight" init=normal : bf16[vocab:tp, hidden]'
has 'bf16[batch:mb, seq, vocab:tp]'

what='llama-2-70b, tensor and sequence'
place llama-2-70b tp=8,microbatch=1,sequence=on
want forward <<'END'
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
END
has 'over=hidden eps=1e-5 : bf16[batch:mb, seq:tp, hidden]'
# what was gathered is kept as pieces, and gathered again
want backward <<'END'
all_gather on=tp of=seq
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
all_gather on=tp of=seq
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
END
# rows are normalised by one rank each, before they are gathered
grep -q 'rmsnorm.* : bf16\[batch:mb, seq, hidden\]' ir &&
	bad "$what: rows are normalised on every rank"

# saves that recompute drops are no part of what is placed
what='gpt-block, attention rebuilt'
place gpt-block tp=2,recompute=attention
has 'saved name="save6.{i}" : bf16[batch:mb, heads:tp, seq, hd]'

# the queries of attention that is written out are what the sequence is
what='gpt-block, tensor and sequence'
place gpt-block tp=2,sequence=on
want forward <<'END'
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
all_gather on=tp of=seq
reduce_scatter on=tp of=seq
END

what='llama-2-70b, more ranks than key heads'
place llama-2-70b tp=16,microbatch=1
has 'axis tp = 8'
has 'axis tpr = 2'
has 'self_attn.q_proj.weight" init=normal : bf16[heads:tp:tpr, hd, hidden]'
has 'self_attn.k_proj.weight" init=normal : bf16[kv:tp, hd, hidden]'
has 'gradient name="model.layers.{i}.self_attn.k_proj.weight" : bf16[kv:tp, hd, hidden]{+tpr}'
want forward <<'END'
all_reduce on=(tp, tpr)
all_reduce on=(tp, tpr)
END

what='llama-2-70b, context'
place llama-2-70b cp=4,microbatch=1
want forward <<'END'
attention on=cp
attention_lse on=cp
END
want backward <<'END'
attention_dq on=cp
attention_dk on=cp
attention_dv on=cp
END
place llama-2-70b cp=4,microbatch=1,context=gather
want forward <<'END'
all_gather on=cp of=seq
all_gather on=cp of=seq
END

# A microbatch on a rank has the same bytes, whatever number of ranks share a
# step, so what tensor ranks exchange is the same.
what='llama-2-70b, tensor and sequence, 4 and 256 data ranks'
place llama-2-70b tp=4,dp=4,sequence=on,microbatch=1
grep 'on=tp' colls >few
test "$(wc -l <few)" -gt 9 || bad "$what: too few collectives"
place llama-2-70b tp=4,dp=256,sequence=on,microbatch=1
grep 'on=tp' colls | diff few - || bad "$what"

what='llama-2-70b, ZeRO'
place llama-2-70b dp=4,zero=1,microbatch=1
has 'self_attn.q_proj.weight" : bf16[heads, hd, hidden]{+dp}'
has ' on=dp of=hidden : bf16[heads, hd, hidden:dp]'
has 'q_proj.weight.exp_avg" init=zeros : f32[heads, hd, hidden:dp]'
place llama-2-70b dp=4,zero=2,microbatch=1
has 'gradient name="model.layers.{i}.self_attn.q_proj.weight" : bf16[heads, hd, hidden:dp]'
place llama-2-70b dp=4,zero=3,microbatch=1
has 'q_proj.weight" init=normal : bf16[heads, hd, hidden:dp]'
[ "$(grep -c '^forward all_gather on=dp' colls)" -eq 9 ] ||
	bad 'ZeRO 3: not every weight is gathered once an iteration'

what='mixtral-8x7b, experts'
place mixtral-8x7b ep=4,dp=2,microbatch=1
want forward <<'END'
all_gather on=ep of=batch
dispatch on=ep of=batch
combine on=ep of=batch
END
has 'experts.{expert}.w1.weight" init=normal : bf16[expert:ep, ffn, hidden]'
has 'block_sparse_moe.gate.weight" init=normal : bf16[expert, hidden]'

what='gpt2-124m, 12 heads over 5'
place gpt2-124m tp=5
has 'heads:tp'
exit $failed

#!/bin/sh
# Each family of llmc import under four splits: all ranks in float64, with the
# weights of its folder, have the losses and the gradients of the whole model,
# which t-import-families holds to the transformers library.
. "${top_srcdir:?}/tests/lib.sh"

# same FOLDER PIN..: each of the splits is the whole model
same()
{
	folder=$1
	shift
	"$LLMC" import "$folder" -o m.llm >out 2>err || bad "import $folder" || return
	for pin; do
		"$LLMC" eval --compare --steps 2 --dim batch=4 \
			--weights "$folder" --pin "$pin" m.llm >out 2>err ||
			bad "$folder: $pin" || continue
		grep -q '^compared .*: at most [0-9.]*e-1[0-9] apart' out ||
			bad "$folder: $pin: $(tail -n 1 out)"
	done
}

nth=0
for folder in "$tests"/interop/tiny/*; do
	nth=$((nth + 1))
	case $folder in
	# layers that take turns, of which these have one round
	*/gpt_oss) splits='tp=4 dp=2,ep=2,zero=1' ;;
	*/gemma[23] | */qwen2_moe_aux) splits='tp=4 dp=4,zero=2' ;;
	*moe | */mixtral* | */deepseek*) splits='pp=2,ep=2 pp=2,dp=2,zero=1' ;;
	*) splits='tp=2,pp=2 pp=2,dp=2,zero=1' ;;
	esac
	# shellcheck disable=SC2086 # two splits
	set -- $splits tp=2,cp=2 dp=2,tp=2,microbatch=1
	# sanitizers see two of them, of the next family the other two
	have time || case $((nth % 2)) in
	0) set -- "$1" "$3" ;;
	*) set -- "$2" "$4" ;;
	esac
	same "$folder" "$@"
done
exit $failed

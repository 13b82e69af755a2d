# The pages, each of which is a test, too: its examples must be true.
doc_pages = \
	%D%/answer.md \
	%D%/binary.md \
	%D%/calibrate.md \
	%D%/checkpoints.md \
	%D%/codegen.md \
	%D%/communication.md \
	%D%/cost.md \
	%D%/cuda.md \
	%D%/design.md \
	%D%/extending.md \
	%D%/glossary.md \
	%D%/gpu.md \
	%D%/import.md \
	%D%/ir.md \
	%D%/kernels.md \
	%D%/language.md \
	%D%/memory.md \
	%D%/passes.md \
	%D%/plan.md \
	%D%/ranks.md \
	%D%/report.md \
	%D%/running.md \
	%D%/schedule.md \
	%D%/search.md \
	%D%/search-measured.md \
	%D%/security.md \
	%D%/server.md \
	%D%/serving.md \
	%D%/target.md \
	%D%/testing.md \
	%D%/tokenize.md \
	%D%/trace.md \
	%D%/walkthrough.md
# Of a release alone, by the rule in tests/local.mk: they search for whole
# models, as tests/cli/search does, and compile and evaluate, as many tests do.
release_doc_pages = \
	README.md \
	%D%/searching.md \
	%D%/sweep.md

# What llmc prints about itself: its man page and its shell completions.
nobase_dist_doc_DATA += $(doc_pages) $(release_doc_pages)

man1_MANS = llmc.1
bashcompdir = $(datadir)/bash-completion/completions
bashcomp_DATA = completions/bash/llmc
zshcompdir = $(datadir)/zsh/site-functions
zshcomp_DATA = completions/zsh/_llmc
fishcompdir = $(datadir)/fish/vendor_completions.d
fishcomp_DATA = completions/fish/llmc.fish

self_described = \
	$(man1_MANS) $(bashcomp_DATA) $(zshcomp_DATA) $(fishcomp_DATA)
CLEANFILES += $(self_described)

$(self_described): llmc$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) $(@D)
	$(AM_V_GEN)case $@ in \
	*.1) what=man ;; \
	*/bash/*) what=bash ;; \
	*/zsh/*) what=zsh ;; \
	*/fish/*) what=fish ;; \
	esac && ./llmc$(EXEEXT) --help=$$what >$@.tmp && mv $@.tmp $@

# The pages (found by tests/list-pairs, since each of them is a test too), and
# what llmc says about itself: its man page and its shell completions.
nobase_dist_doc_DATA += $(doc_pages)

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

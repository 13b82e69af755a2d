# One file per accelerator, in the language's own syntax.  llmc holds them all
# itself, as the table that embed.sh prints; they are installed to be read.
targetsdir = $(pkgdatadir)/targets
dist_targets_DATA = \
	%D%/a10.target \
	%D%/a100-40g.target \
	%D%/a100-pcie-bridged.target \
	%D%/a100-pcie.target \
	%D%/a100-sxm.target \
	%D%/a800-sxm.target \
	%D%/b200.target \
	%D%/cpu-avx512.target \
	%D%/cpu-sapphirerapids.target \
	%D%/cpu-znver5.target \
	%D%/cpu.target \
	%D%/gb200.target \
	%D%/gh200-141.target \
	%D%/gh200-96.target \
	%D%/h100-pcie.target \
	%D%/h100-sxm.target \
	%D%/h200-sxm.target \
	%D%/h800-sxm.target \
	%D%/l40s.target \
	%D%/mi250.target \
	%D%/mi250x.target \
	%D%/mi300x.target \
	%D%/rtx3090.target \
	%D%/rtx4090.target \
	%D%/t4.target \
	%D%/tpu-v4.target \
	%D%/tpu-v5e.target \
	%D%/tpu-v5p.target \
	%D%/v100-sxm.target
EXTRA_DIST += %D%/embed.sh

BUILT_SOURCES += frontend/tool/target_files.c
CLEANFILES += frontend/tool/target_files.c
frontend/tool/target_files.c: %D%/embed.sh $(dist_targets_DATA)
	$(AM_V_at)$(MKDIR_P) $(@D)
	$(AM_V_GEN)files=; for file in $(dist_targets_DATA); do \
		test -f $$file || file=$(srcdir)/$$file; \
		files="$$files $$file"; \
	done && sh $(srcdir)/%D%/embed.sh $$files >$@.tmp && mv $@.tmp $@

# One file per accelerator, in the language's own syntax: whatever lies here
# is built into llmc, as the table that embed.sh prints, and installed.
targetsdir = $(pkgdatadir)/targets
dist_targets_DATA = $(sort $(wildcard $(srcdir)/%D%/*.target))
EXTRA_DIST += %D%/embed.sh

BUILT_SOURCES += frontend/lang/target_files.c
CLEANFILES += frontend/lang/target_files.c
frontend/lang/target_files.c: %D%/embed.sh $(dist_targets_DATA)
	$(AM_V_at)$(MKDIR_P) $(@D)
	$(AM_V_GEN)files=; for file in $(dist_targets_DATA); do \
		test -f $$file || file=$(srcdir)/$$file; \
		files="$$files $$file"; \
	done && sh $(srcdir)/%D%/embed.sh $$files >$@.tmp && mv $@.tmp $@

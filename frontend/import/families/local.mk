# One file per family of models, and parts that several use: whatever lies
# here is built into llmc, as the table that embed.sh prints.
family_files = $(sort $(wildcard $(srcdir)/%D%/*.family $(srcdir)/%D%/parts/*.part))
EXTRA_DIST += %D%/embed.sh $(family_files)

BUILT_SOURCES += frontend/import/family_files.c
CLEANFILES += frontend/import/family_files.c
frontend/import/family_files.c: %D%/embed.sh $(family_files)
	$(AM_V_at)$(MKDIR_P) $(@D)
	$(AM_V_GEN)files=; for file in $(family_files); do \
		test -f $$file || file=$(srcdir)/$$file; \
		files="$$files $$file"; \
	done && sh $(srcdir)/%D%/embed.sh $$files >$@.tmp && mv $@.tmp $@

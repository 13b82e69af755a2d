# One file per accelerator and per cluster, in the language's own syntax.
targetsdir = $(pkgdatadir)/targets
dist_targets_DATA =

#!/bin/sh
# Makes ./configure, after a git checkout.
set -e
cd "$(dirname "$0")"
exec autoreconf -fi

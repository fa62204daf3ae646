# 'make' lists what there is.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
STATEDIR   = /var/lib/cairn
DESTDIR    ?=
SWIFT      ?= swift
SHELL      := /bin/bash

# Where the programs are taken from that are installed.
BUILT   ?= .build/release
RELEASE = .build/release/cairn
SOURCES = Sources Tests docs/examples Package.swift
VERSION = $(shell sed -n 's/.*version = "\(.*\)"/\1/p' Sources/Replicating/Endpoints/Product.swift)
# The number goes up when a program that was linked before would no longer run.
SONAME = libcairn.so.0
# What is installed needs no Swift on the machine, which SwiftPM's own library does.
LIBRARY ?= $(BUILT)/libcairn.so
LINK_LIBRARY = $(SWIFT)c -emit-library -static-stdlib -o $(LIBRARY) @.build/release/CairnC.product/Objects.LinkFileList \
  -Xlinker --gc-sections -Xlinker -s -Xlinker -soname=$(SONAME) -Xlinker --version-script=Sources/C/CCairn/cairn.map \
  -Xlinker -z -Xlinker now -no-toolchain-stdlib-rpath \
  $$(pkg-config --libs sqlite3 libpq libzstd libcrypto) -lstdc++
# All symbols are bound at the start, so that their table is read-only; libraries come from the system's folders only.
RELEASE_FLAGS = -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked -Xlinker -z -Xlinker now \
  --disable-local-rpath

.DEFAULT_GOAL := help
.PHONY: help setup build demo test soak hostile bench docs lint format stage install uninstall clean

help:
	@echo 'make setup     install the libraries and tools that are missing (Debian packages; needs root or sudo)'
	@echo 'make build     build $(RELEASE), cairnd and libcairn.so'
	@echo 'make demo      see it work, SQLite and PostgreSQL: copy, follow, kill -9, detach; all in a temporary folder'
	@echo 'make test      run the tests (long ones reduced)'
	@echo 'make soak      run the tests, the long ones in full'
	@echo 'make hostile   attack with 100,000 trails and 1,000,000 requests under AddressSanitizer; prints the counts'
	@echo 'make bench     measure cairn, native replication and raw speed; JSON lines (docs/explanation/benchmarks.md)'
	@echo 'make docs      the pages of the Swift library, for a web server, in $(PAGES)'
	@echo 'make lint      check the format of all Swift files'
	@echo 'make format    format all Swift files in place'
	@echo 'make install   programs, library, unit, man pages, completion and docs below PREFIX (now $(PREFIX)), conf into'
	@echo '               $(SYSCONFDIR)/cairn unless there is one; DESTDIR is put in front'
	@echo 'make uninstall take away what install put there; conf and state stay'
	@echo 'make clean     remove what was built'

# Each line: what proves that it is there, and the Debian package that brings it.
define NEEDS
command -v make             make
command -v gcc              gcc
ls /usr/include/c++/*/string  g++
command -v pkg-config       pkg-config
command -v sqlite3          sqlite3
test -x /usr/bin/python3    python3
pkg-config --exists sqlite3      libsqlite3-dev
pkg-config --exists libzstd      libzstd-dev
pkg-config --exists libcrypto    libssl-dev
pkg-config --exists libpq        libpq-dev
pkg-config --exists libsystemd      libsystemd-dev
pkg-config --exists libmicrohttpd   libmicrohttpd-dev
pkg-config --exists gnutls          libgnutls28-dev
curl-config --libs | grep -q gnutls && pkg-config --exists libcurl   libcurl4-gnutls-dev
test -e /usr/include/toml++/toml.h  libtomlplusplus-dev
/usr/bin/psql --version          postgresql-client
ls /usr/lib/postgresql/*/bin/initdb   postgresql
test -e /usr/include/stdlib.h    libc6-dev
endef
export NEEDS

setup:
	@missing=; \
	while read -r line; do \
	  package=$${line##* }; proof=$${line% *}; \
	  sh -c "$$proof" >/dev/null 2>&1 || missing="$$missing $$package"; \
	done <<< "$$NEEDS"; \
	if [ -n "$$missing" ]; then \
	  if ! command -v apt-get >/dev/null; then \
	    echo "setup: missing (Debian names):$$missing; install them with this system's package manager" >&2; exit 1; \
	  fi; \
	  sudo=; \
	  if [ "$$(id -u)" != 0 ]; then \
	    if ! command -v sudo >/dev/null; then \
	      echo "setup: missing:$$missing; run as root: apt-get install$$missing" >&2; exit 1; \
	    fi; \
	    sudo=sudo; \
	  fi; \
	  echo "setup: installing$$missing"; \
	  case "$$missing" in *" postgresql"*) \
	    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then \
	      $$sudo mkdir -p /etc/postgresql-common; \
	      echo 'create_main_cluster = false' | $$sudo tee /etc/postgresql-common/createcluster.conf >/dev/null; \
	    fi;; \
	  esac; \
	  install="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
	    -o Dpkg::Options::=--force-confold$$missing"; \
	  $$install </dev/null || { $$sudo apt-get update -q </dev/null && $$install </dev/null; }; \
	fi
	@if ! command -v $(SWIFT) >/dev/null; then \
	  echo "setup: there is no '$(SWIFT)': install Swift 6.3 (https://www.swift.org/install/linux/), put it on PATH" >&2; \
	  exit 1; \
	fi

build:
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn
	$(SWIFT) build $(RELEASE_FLAGS) --product cairnd
	$(SWIFT) build $(RELEASE_FLAGS) --product CairnC
	$(LINK_LIBRARY)

demo: setup
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn
	@docs/demo/run.sh $(RELEASE)

# Most tests wait for something, so four processes run beside each other: the scenarios, which run the debug cairn, the tests
# of whole replications, those of captures, and all others. The output of the first three follows when the others have ended.
# What failed is printed at the end once more.
TEST = $(SWIFT) test --skip-build --disable-xctest --ignore-lock
APART = Scenario Replicating Capturing
test: setup
	$(SWIFT) build --build-tests
	@set -o pipefail; declare -A process; failed=0; \
	for part in $(APART); do $(TEST) --filter "^$${part}Tests\." >.build/$$part.log 2>&1 & process[$$part]=$$!; done; \
	$(TEST) $(APART:%=--skip '^%Tests\.') 2>&1 | tee .build/others.log || failed=1; \
	for part in $(APART); do wait $${process[$$part]} || failed=1; cat .build/$$part.log; done; \
	if ((failed)); then \
	  echo "test: failed:"; \
	  grep -a -h -A 12 -e 'recorded an issue' -e 'error: ' $(APART:%=.build/%.log) .build/others.log; exit 1; \
	fi

soak: export CAIRN_SOAK = 1
soak: test

# A build of its own, in which AddressSanitizer watches every access. Its shadow of a thread's stack is kept small: it would
# else count as memory of the daemon, 7 MiB for each of its 90 threads. HOSTILE='--trails 1000 --requests 10000 --seed 1' for less.
ASAN = .build-asan
hostile: setup
	$(SWIFT) build -c release --sanitize=address --build-path $(ASAN) --product cairnd
	$(SWIFT) build -c release --sanitize=address --build-path $(ASAN) --product cairn-hostile
	ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=32:max_uar_stack_size_log=16 $(ASAN)/release/cairn-hostile --cairnd $(ASAN)/release/cairnd $(HOSTILE)

bench: setup
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn-bench
	.build/release/cairn-bench $(BENCH)

# DocC is a part of the Swift toolchain. The pages link to each other below the path of their server.
PAGES = .build/pages
docs: setup
	@command -v docc >/dev/null || { echo 'docs: this Swift toolchain has no docc' >&2; exit 1; }
	$(SWIFT) build --target CairnCapture
	@rm -rf $(PAGES) .build/symbols .build/*/symbolgraph/CairnCapture*.json && mkdir -p .build/symbols
	@# It fails for modules in C, as it passes them the options of C++, and goes on with the others.
	$(SWIFT) package dump-symbol-graph --minimum-access-level public --skip-synthesized-members >/dev/null 2>&1 || true
	@cp .build/*/symbolgraph/CairnCapture*.json .build/symbols/
	docc convert Sources/Programs/CairnCapture/CairnCapture.docc --additional-symbol-graph-dir .build/symbols \
	  --fallback-display-name CairnCapture --fallback-bundle-identifier cairn.CairnCapture --warnings-as-errors \
	  --transform-for-static-hosting --output-path $(PAGES)

lint:
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)

format:
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
MANDIR = $(PREFIX)/share/man
DOCDIR = $(PREFIX)/share/doc/cairn
COMPLETIONDIR = $(PREFIX)/share/bash-completion/completions
CONFDIR = $(SYSCONFDIR)/cairn
STAGE = .build/stage
# Installed as they are here, so that their links hold.
DOCS = README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*/*.md docs/images/*.svg docs/examples/*/*.*) \
  docs/examples/till/Sources/till/Till.swift $(wildcard conf/*.toml conf/network/*.toml conf/*.yml systemd/*.example)

# What install puts where and uninstall takes away: mode:file:place.
INSTALLED = \
  755:$(BUILT)/cairn:$(BINDIR)/cairn \
  755:$(BUILT)/cairnd:$(BINDIR)/cairnd \
  644:$(LIBRARY):$(LIBDIR)/$(SONAME) \
  644:Sources/C/CCairn/include/cairn.h:$(INCLUDEDIR)/cairn.h \
  644:$(STAGE)/cairn.pc:$(LIBDIR)/pkgconfig/cairn.pc \
  644:$(STAGE)/cairnd.service:$(LIBDIR)/systemd/system/cairnd.service \
  644:$(STAGE)/cairn.sysusers:$(LIBDIR)/sysusers.d/cairn.conf \
  644:$(STAGE)/cairn.tmpfiles:$(LIBDIR)/tmpfiles.d/cairn.conf \
  644:$(STAGE)/cairn.1:$(MANDIR)/man1/cairn.1 \
  644:$(STAGE)/cairnd.8:$(MANDIR)/man8/cairnd.8 \
  644:$(STAGE)/cairn.toml.5:$(MANDIR)/man5/cairn.toml.5 \
  644:$(STAGE)/completion:$(COMPLETIONDIR)/cairn \
  644:$(STAGE)/completion:$(COMPLETIONDIR)/cairnd \
  $(foreach doc,$(DOCS),644:$(doc):$(DOCDIR)/$(doc))

# Files that are made of others before they are installed.
stage:
	@for program in $(BUILT)/cairn $(BUILT)/cairnd $(LIBRARY); do \
	  test -x $$program || { echo "install: there is no $$program: run 'make build' first" >&2; exit 1; }; \
	done
	@rm -rf $(STAGE) && mkdir -p $(STAGE)
	@for file in cairnd.service cairn.sysusers cairn.tmpfiles; do \
	  sed -e 's,@BINDIR@,$(BINDIR),g' -e 's,@CONFDIR@,$(CONFDIR),g' -e 's,@STATEDIR@,$(STATEDIR),g' \
	    systemd/$$file >$(STAGE)/$$file || exit 1; \
	done
	@sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBDIR),' -e 's,@INCLUDEDIR@,$(INCLUDEDIR),' \
	  -e 's,@VERSION@,$(VERSION),' Sources/C/CCairn/cairn.pc >$(STAGE)/cairn.pc
	@# Which node this is, only a person knows: without a name the daemon does not start.
	@sed 's,^name = ,#&,' conf/cairn.toml >$(STAGE)/cairn.toml
	@$(BUILT)/cairn help --man cairn >$(STAGE)/cairn.1
	@$(BUILT)/cairn help --man cairnd >$(STAGE)/cairnd.8
	@$(BUILT)/cairn config --man >$(STAGE)/cairn.toml.5
	@$(BUILT)/cairn help --completion bash >$(STAGE)/completion

install: stage
	@for entry in $(INSTALLED); do \
	  IFS=: read -r mode file place <<< "$$entry"; \
	  install -D -m $$mode $$file $(DESTDIR)$$place || exit 1; \
	done
	@ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libcairn.so
	@install -d $(DESTDIR)$(CONFDIR)/conf.d
	@install -d -m 700 $(DESTDIR)$(CONFDIR)/credentials
	@test -e $(DESTDIR)$(CONFDIR)/cairn.toml || install -m 644 $(STAGE)/cairn.toml $(DESTDIR)$(CONFDIR)/cairn.toml
	@echo "installed below $(DESTDIR)$(PREFIX); conf is in $(DESTDIR)$(CONFDIR)"
ifeq ($(DESTDIR),)
	@echo 'next, as root: systemd-sysusers && systemd-tmpfiles --create cairn.conf && systemctl daemon-reload'
	@echo 'then $(DOCDIR)/docs/guides/install.md'
endif

uninstall:
	@rm -f $(DESTDIR)$(LIBDIR)/libcairn.so $(foreach entry,$(INSTALLED),$(DESTDIR)$(lastword $(subst :, ,$(entry))))
	@test ! -d $(DESTDIR)$(DOCDIR) || find $(DESTDIR)$(DOCDIR) -depth -type d -empty -delete
	@echo "left: $(DESTDIR)$(CONFDIR), $(DESTDIR)$(STATEDIR), the user cairn"

clean:
	rm -rf .build $(ASAN)

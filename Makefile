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
  -Xlinker --gc-sections -Xlinker -soname=$(SONAME) -Xlinker --version-script=Sources/C/CCairn/cairn.map \
  -Xlinker -z -Xlinker now -no-toolchain-stdlib-rpath \
  $$(pkg-config --libs sqlite3 libpq libzstd libcrypto) -lstdc++
# All symbols are bound at the start, so that their table is read-only; libraries come from the system's folders only.
RELEASE_FLAGS = -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked -Xlinker -z -Xlinker now \
  --disable-local-rpath

.DEFAULT_GOAL := help
.PHONY: help setup build built demo test soak hostile bench docs lint format stage install uninstall clean deb deb-test \
  tarball

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
	@echo 'make uninstall take away what install put there, and name the databases to detach; conf and state stay'
	@echo 'make deb       Debian packages of what was built, in $(DEB)'
	@echo 'make deb-test  install, upgrade under load, remove and purge these packages in booted Debian 12 and 13 (root)'
	@echo 'make tarball   an archive with its checksum, to unpack below /usr/local, in $(TARBALLS)'
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

# Builds unless what was built is newer than all sources.
built:
	@test -x $(LIBRARY) -a -x $(BUILT)/cairnd -a -z "$$(find Sources Package.swift -type f -newer $(LIBRARY) -print -quit)" \
	  || $(MAKE) build

demo: setup
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn
	@docs/demo/run.sh $(RELEASE)

# Most tests wait for something, so four processes run beside each other: the scenarios, which run the debug cairn, the tests
# of whole replications, those of captures, and all others. The output of the first three follows when the others have ended.
# What failed is printed at the end once more.
# A part that does not end is killed, and the tests are named that it had begun.
TEST = NO_COLOR=1 timeout --foreground --kill-after 10 $(PART_LIMIT) .build/debug/CairnPackageTests.xctest --testing-library swift-testing
PART_LIMIT = 50m
APART = Scenario Replicating Capturing
test: setup
	$(SWIFT) build --build-tests
	@set -o pipefail; declare -A process; failed=0; \
	for part in $(APART); do $(TEST) --filter "^$${part}Tests\." >.build/$$part.log 2>&1 & process[$$part]=$$!; done; \
	$(TEST) $(APART:%=--skip '^%Tests\.') 2>&1 | tee .build/others.log || failed=1; \
	for part in $(APART); do wait $${process[$$part]} || failed=1; cat .build/$$part.log; done; \
	if ((failed)); then \
	  echo "test: failed:"; \
	  for log in $(APART:%=.build/%.log) .build/others.log; do \
	    grep -aq '^. Test run with' $$log || { echo "test: $$log did not end:"; Tests/Tools/unfinished.sh $$log; }; \
	  done; \
	  grep -a -h -A 12 -e 'recorded an issue' -e 'error: ' $(APART:%=.build/%.log) .build/others.log; exit 1; \
	fi

soak: export CAIRN_SOAK = 1
soak: PART_LIMIT = 0
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
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
CONFDIR = $(SYSCONFDIR)/cairn
STAGE = .build/stage
# Programs and library are installed without their debug symbols; STRIP= keeps them.
STRIP ?= -s
# Installed as they are here, so that their links hold.
DOCS = README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*/*.md docs/images/*.svg docs/examples/*/*.*) \
  docs/examples/till/Sources/till/Till.swift $(wildcard conf/*.toml conf/network/*.toml conf/*.yml conf/*.json systemd/*.example)

# What install puts where and uninstall takes away: mode:file:place.
INSTALLED = \
  755:$(BUILT)/cairn:$(BINDIR)/cairn \
  755:$(BUILT)/cairnd:$(BINDIR)/cairnd \
  644:$(LIBRARY):$(LIBDIR)/$(SONAME) \
  644:Sources/C/CCairn/include/cairn.h:$(INCLUDEDIR)/cairn.h \
  644:$(STAGE)/cairn.pc:$(LIBDIR)/pkgconfig/cairn.pc \
  644:$(STAGE)/cairnd.service:$(PREFIX)/lib/systemd/system/cairnd.service \
  644:$(STAGE)/cairn.sysusers:$(PREFIX)/lib/sysusers.d/cairn.conf \
  644:$(STAGE)/cairn.tmpfiles:$(PREFIX)/lib/tmpfiles.d/cairn.conf \
  644:$(STAGE)/cairn.1:$(MANDIR)/man1/cairn.1 \
  644:$(STAGE)/cairnd.8:$(MANDIR)/man8/cairnd.8 \
  644:$(STAGE)/cairn.toml.5:$(MANDIR)/man5/cairn.toml.5 \
  644:$(STAGE)/cairn.bash:$(BASHDIR)/cairn \
  644:$(STAGE)/cairn.bash:$(BASHDIR)/cairnd \
  644:$(STAGE)/cairn.zsh:$(ZSHDIR)/_cairn \
  644:$(STAGE)/cairn.fish:$(FISHDIR)/cairn.fish \
  644:$(STAGE)/cairn.fish:$(FISHDIR)/cairnd.fish \
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
	@$(BUILT)/cairn help --man cairn >$(STAGE)/cairn.1
	@$(BUILT)/cairn help --man cairnd >$(STAGE)/cairnd.8
	@$(BUILT)/cairn config --man >$(STAGE)/cairn.toml.5
	@for shell in bash zsh fish; do $(BUILT)/cairn help --completion $$shell >$(STAGE)/cairn.$$shell || exit 1; done

# Which node this is, only a person knows: the starter has no name, so the daemon does not start before it has one.
install: stage
	@for entry in $(INSTALLED); do \
	  IFS=: read -r mode file place <<< "$$entry"; \
	  strip=; case $$place in $(BINDIR)/* | */$(SONAME)) strip='$(STRIP)';; esac; \
	  install -D $$strip -m $$mode $$file $(DESTDIR)$$place || exit 1; \
	done
	@ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libcairn.so
	@install -d $(DESTDIR)$(CONFDIR)/conf.d
	@install -d -m 700 $(DESTDIR)$(CONFDIR)/credentials
	@test -e $(DESTDIR)$(CONFDIR)/cairn.toml || install -m 644 conf/starter.toml $(DESTDIR)$(CONFDIR)/cairn.toml
	@echo "installed below $(DESTDIR)$(PREFIX); conf is in $(DESTDIR)$(CONFDIR)"
ifeq ($(DESTDIR),)
	@echo 'next, as root: systemd-sysusers && systemd-tmpfiles --create cairn.conf && systemctl daemon-reload'
	@echo 'then $(DOCDIR)/docs/guides/install.md'
endif

# The program that detaches databases goes too, so it first says which databases still have something of Cairn.
uninstall:
	@test ! -x $(DESTDIR)$(BINDIR)/cairn || attached=$$( \
	    { timeout -k 5 30 $(DESTDIR)$(BINDIR)/cairn detach --list --config $(DESTDIR)$(CONFDIR) 2>&1 </dev/null \
	      || echo 'cairn detach URL  # for each database of the conf, which could not be listed'; } \
	    | grep -E '^cairn( detach|: trail) ' || true); \
	  if [ -n "$$attached" ]; then \
	    echo 'these databases of $(DESTDIR)$(CONFDIR) may keep triggers, tables or slots of Cairn. Triggers go on recording.'; \
	    echo 'To detach them, install Cairn again, and run:'; \
	    sed 's/^/  /' <<< "$$attached"; \
	  fi
	@rm -f $(DESTDIR)$(LIBDIR)/libcairn.so $(foreach entry,$(INSTALLED),$(DESTDIR)$(lastword $(subst :, ,$(entry))))
	@test ! -d $(DESTDIR)$(DOCDIR) || find $(DESTDIR)$(DOCDIR) -depth -type d -empty -delete
	@echo "left: $(DESTDIR)$(CONFDIR), $(DESTDIR)$(STATEDIR), the user cairn"

# The packages are built in a copy of the tree, in which debhelper leaves its files.
DEB = .build/deb
deb: built
	@command -v dh >/dev/null || { echo "deb: install the packages debhelper and dpkg-dev first" >&2; exit 1; }
	@head -n 1 debian/changelog | grep -qF '($(VERSION))' || { echo "deb: debian/changelog is not of $(VERSION)" >&2; exit 1; }
	@rm -rf $(DEB) && mkdir -p $(DEB)/tree
	@cp -a debian Makefile Package.swift Sources README.md CHANGELOG.md LICENSE conf docs systemd $(DEB)/tree/
	cd $(DEB)/tree && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS BUILT=$(abspath $(BUILT)) dpkg-buildpackage -b -us -uc >../log 2>&1 \
	  || { tail -n 30 ../log; exit 1; }
	@rm -rf $(DEB)/tree
	@ls -1 $(DEB)/*.deb

# The roots are made by debootstrap at the first run, and kept in .build/roots.
deb-test:
	@test -e $(DEB)/cairnd_$(VERSION)_*.deb || $(MAKE) deb
	Tests/Tools/packages.sh $(DEB) .build/roots $(SUITES)

TARBALLS = .build/tarball
TARBALL = cairn-$(VERSION)-linux-$(shell uname -m)
tarball: built
	@rm -rf $(TARBALLS) && mkdir -p $(TARBALLS)
	@$(MAKE) -s install PREFIX=/usr/local DESTDIR=$(abspath $(TARBALLS))/root STAGE=$(TARBALLS)/stage >/dev/null
	@tar -C $(TARBALLS)/root/usr --transform 's,^local,$(TARBALL),' --sort=name --owner=0 --group=0 --numeric-owner \
	  --mtime='@$(shell git log -1 --format=%ct 2>/dev/null || date +%s)' -czf $(TARBALLS)/$(TARBALL).tar.gz local
	@rm -rf $(TARBALLS)/root $(TARBALLS)/stage
	@cd $(TARBALLS) && sha256sum $(TARBALL).tar.gz >$(TARBALL).tar.gz.sha256
	@ls -1 $(TARBALLS)/*

clean:
	rm -rf .build $(ASAN)

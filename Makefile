# 'make' lists what there is.

PREFIX  ?= /usr/local
DESTDIR ?=
SWIFT   ?= swift
SHELL   := /bin/bash

RELEASE = .build/release/cairn
SOURCES = Sources Tests Package.swift
RELEASE_FLAGS = -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked

.DEFAULT_GOAL := help
.PHONY: help setup build demo test soak bench lint format install clean

help:
	@echo 'make setup     install the libraries and tools that are missing (Debian packages; needs root or sudo)'
	@echo 'make build     build $(RELEASE)'
	@echo 'make demo      see it work, SQLite and PostgreSQL: copy, follow, kill -9, detach; all in a temporary folder'
	@echo 'make test      run the tests (long ones reduced)'
	@echo 'make soak      run the tests, the long ones in full'
	@echo 'make bench     measure cairn beside native replication and raw speed; JSON lines (docs/benchmarks.md)'
	@echo 'make lint      check the format of all Swift files'
	@echo 'make format    format all Swift files in place'
	@echo 'make install   copy cairn and its docs below PREFIX (now $(PREFIX)); DESTDIR is put in front'
	@echo 'make clean     remove .build'

# Each line: what proves that it is there, and the Debian package that brings it.
define NEEDS
command -v make             make
command -v gcc              gcc
command -v pkg-config       pkg-config
command -v sqlite3          sqlite3
test -x /usr/bin/python3    python3
pkg-config --exists sqlite3      libsqlite3-dev
pkg-config --exists libzstd      libzstd-dev
pkg-config --exists libcrypto    libssl-dev
pkg-config --exists libpq        libpq-dev
pkg-config --exists libsystemd      libsystemd-dev
pkg-config --exists libmicrohttpd   libmicrohttpd-dev
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

demo: setup build
	@docs/demo/run.sh $(RELEASE)

# The scenarios run the debug cairn, which is built along with the tests.
test: setup
	$(SWIFT) build --build-tests
	$(SWIFT) test --skip-build --disable-xctest

soak: export CAIRN_SOAK = 1
soak: test

bench: setup
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn
	$(SWIFT) build $(RELEASE_FLAGS) --product cairn-bench
	.build/release/cairn-bench $(BENCH)

lint:
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)

format:
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

install:
	@test -x $(RELEASE) || { echo "install: there is no $(RELEASE): run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(RELEASE) $(DESTDIR)$(PREFIX)/bin/cairn
	install -d $(DESTDIR)$(PREFIX)/share/doc/cairn/decisions
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md $(DESTDIR)$(PREFIX)/share/doc/cairn
	install -m 644 docs/decisions/*.md $(DESTDIR)$(PREFIX)/share/doc/cairn/decisions

clean:
	rm -rf .build

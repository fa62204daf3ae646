#!/bin/bash
# The service in a booted systemd: install, start, status, reload with good and bad conf, kill -9, watchdog, stop,
# uninstall. It runs in systemd-nspawn on an overlay of this machine's files, which stay as they are.
#
#     nspawn.sh FOLDER        FOLDER has the programs cairn and cairnd
#
# Each step is printed. Exit status 0 only if all was as it must be. Exit status 77, with the reason, if this machine
# cannot: it needs root, overlayfs, systemd-nspawn and a cgroup tree.
set -euo pipefail
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
[ $# -eq 1 ] || { sed -n '5p' "$0" >&2; exit 64; }
programs=$(cd "$1" && pwd)

cannot() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || cannot "only root can start a container"
for tool in systemd-nspawn nsenter sqlite3 make; do
  command -v $tool >/dev/null || cannot "there is no $tool (packages systemd-container, util-linux, sqlite3, make)"
done

began=$(date +%s.%N)
say() { printf '\n== %s (%.1f s)\n' "$*" "$(echo "$(date +%s.%N) $began" | awk '{ print $1 - $2 }')"; }
shown() { printf '$ %s\n' "$*"; inside "$@" 2>&1 | sed 's/^/  /'; }
fail() {
  printf '\nnspawn: %s\n' "$*"
  inside journalctl -u cairnd --no-pager -o short-precise 2>&1 | tail -n 40 || true
  exit 1
}

# MARK: The machine

work=$(mktemp -d /run/cairn-nspawn-XXXXXX)
root=$work/root
machine=
leader=
finish() {
  [ -z "$machine" ] || {
    kill "$machine" 2>/dev/null || true
    for i in $(seq 50); do kill -0 "$machine" 2>/dev/null || break; [ "$i" != 25 ] || kill "$machine" 2>/dev/null || true; sleep 0.1; done
    kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  }
  umount "$root" 2>/dev/null || true
  umount "$work/disk" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

mkdir "$root" "$work/disk"
mount -t tmpfs tmpfs "$work/disk" 2>/dev/null || cannot "mount is not allowed here"
mkdir "$work/disk/upper" "$work/disk/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/disk/upper,workdir=$work/disk/work" "$root" 2>/dev/null ||
  cannot "overlayfs cannot be mounted here"
# A service that is enabled on this machine does not belong into the trial.
rm -f "$root"/etc/systemd/system/*.wants/*.service
rm -rf "$root"/etc/cairn "$root"/var/lib/cairn "$root"/etc/systemd/system/cairnd.service*
rm -rf "$root"/var/log/journal

inside() { nsenter -t "$leader" -a -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
until_true() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "waited in vain: $what"
    sleep 0.1
  done
}

say "make install"
library=$programs/libcairn.so
[ -e "$library" ] || library=$programs/libCairnC.so
make=(env -u MAKEFLAGS -u MAKELEVEL make -s -C "$project" BUILT="$programs" LIBRARY="$library" STAGE="$work/stage" PREFIX=/usr DESTDIR="$root")
"${make[@]}" install || { echo "nspawn: make install failed"; exit 1; }
(cd "$root" && ls -l usr/bin/cairn* usr/lib/systemd/system/cairnd.service etc/cairn) | sed 's/^/  /'

say "boot"
systemd-nspawn -D "$root" -b --register=no --keep-unit --machine=cairn-trial --console=pipe --link-journal=no \
  </dev/null >"$work/console" 2>&1 &
machine=$!
for i in $(seq 100); do
  leader=$(pgrep -P "$machine" || true)
  [ -z "$leader" ] || case $(inside systemctl is-system-running 2>/dev/null || true) in running | degraded) break ;; esac
  kill -0 "$machine" 2>/dev/null || cannot "no container starts here: $(tail -n 1 "$work/console")"
  [ "$i" != 100 ] || cannot "the container does not boot here: $(tail -n 1 "$work/console")"
  sleep 0.2
done
shown id cairn

# MARK: Databases and conf

say "a database of another user, and a target"
inside useradd --no-create-home cashier
inside usermod -aG cashier cairn
inside install -d -m 2770 -o cashier -g cashier /srv/pos
inside install -d -m 2770 -o cairn -g cairn /srv/hq
pos() { inside setpriv --reuid cashier --regid cashier --clear-groups sqlite3 -bail -cmd '.timeout 10000' "$@"; }
hq() { inside setpriv --reuid cairn --regid cairn --clear-groups sqlite3 -bail -readonly -cmd '.timeout 10000' "$@"; }
for name in pos extra; do
  pos /srv/pos/$name.db "PRAGMA journal_mode = wal; CREATE TABLE sale (id INTEGER PRIMARY KEY, item TEXT, price REAL);
    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO sale SELECT i, 'item ' || i, i / 4.0 FROM n" >/dev/null
  inside chmod 660 /srv/pos/$name.db
done
inside mkdir -p /etc/systemd/system/cairnd.service.d
inside sh -c "sed 's,^ReadWritePaths=.*,ReadWritePaths=/srv/pos /srv/hq,' /usr/share/doc/cairn/systemd/sqlite.conf.example \
  >/etc/systemd/system/cairnd.service.d/sqlite.conf"
inside tee /etc/cairn/cairn.toml >/dev/null <<'CONF'
[node]
name = "store-1"

[database.pos]
url = "sqlite:///srv/pos/pos.db"
[database.hq]
url = "sqlite:///srv/hq/hq.db"

[capture.pos]
database = "pos"
[apply.hq]
trail = "store-1.pos"
database = "hq"
CONF
sold() { # NAME COUNT: rows that a program sells, one transaction each
  inside setpriv --reuid cashier --regid cashier --clear-groups /usr/bin/python3 -c '
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
for i in range(int(sys.argv[2])):
    base.execute("INSERT INTO sale(item, price) VALUES (?, ?)", (f"sold {i}", i * 0.25))
    base.execute("UPDATE sale SET price = price + 1 WHERE id = ?", (i % 500 + 1,))
' "/srv/pos/$1.db" "$2"
}
digest='SELECT count(*), sum(price), group_concat(id || item || price) FROM (SELECT * FROM sale ORDER BY id)'
equal() { [ "$(pos "/srv/pos/$1.db" "$digest")" = "$(hq "/srv/hq/$2.db" "$digest")" ]; }
property() { inside systemctl show -P "$1" cairnd; }

# MARK: The service

say "enable and start"
shown systemctl daemon-reload
shown systemctl enable --now cairnd || fail "it does not start"
until_true 20 "the first copy" equal pos hq
told() { [ -n "$(property StatusText)" ]; }
until_true 5 "STATUS= says something" told
shown systemctl status --no-pager -n 4 cairnd
[ "$(property ActiveState)" = active ] || fail "it is not active"
until_true 10 "cairn status finds all well" inside cairn status
shown cairn status
shown stat -c '%A %U %G %n' /run/cairn /run/cairn/control /var/lib/cairn /srv/pos /srv/pos/pos.db /srv/pos/pos.db-wal /srv/pos/pos.db-shm
completed() { # WORDS...: what bash offers behind them
  inside bash -c 'source /usr/share/bash-completion/completions/cairn
    COMP_LINE="$* " COMP_POINT=${#COMP_LINE} COMP_WORDS=("$@" "") COMP_CWORD=$#; _cairn_complete; echo "${COMPREPLY[@]}"' bash "$@"
}
for line in 'cairn start:apply.hq capture.pos heartbeat.pos purge.pos' 'cairn copy:hq' 'cairn unhook:sqlite: postgresql:// hq pos'; do
  # shellcheck disable=SC2086
  [ "$(completed ${line%%:*})" = "${line#*:}" ] || fail "bash completes '${line%%:*}' with '$(completed ${line%%:*})'"
done
[ "$(inside stat -c %a /run/cairn/control)" = 660 ] || fail "the control socket is not 0660"
inside setpriv --reuid cashier --regid cashier --clear-groups cairn status >/dev/null 2>&1 && fail "anybody may use the socket"

say "a program writes"
sold pos 200
until_true 10 "200 sales arrive" equal pos hq

say "reload with more conf"
inside tee /etc/cairn/conf.d/extra.toml >/dev/null <<'CONF'
[database.extra]
url = "sqlite:///srv/pos/extra.db"
[database.extra-copy]
url = "sqlite:///srv/hq/extra.db"
[capture.extra]
database = "extra"
[apply.extra]
trail = "store-1.extra"
database = "extra-copy"
CONF
pid=$(property MainPID)
shown systemctl reload cairnd
until_true 20 "the new pair is copied" equal extra extra
[ "$(property MainPID)" = "$pid" ] || fail "a reload started another process"

say "reload with a conf that is wrong"
printf '[capture.pos2]\ndatabse = "pos"\n' | inside tee /etc/cairn/conf.d/wrong.toml >/dev/null
inside systemctl reload cairnd && fail "a reload with a wrong conf did not fail"
refused() { inside journalctl -u cairnd --no-pager -o cat | grep -F 'wrong.toml:2'; }
until_true 10 "the journal names the line" refused
refused | sed 's/^/  /'
sold pos 20
until_true 10 "the old conf stays in force" equal pos hq
[ "$(property ActiveState)/$(property MainPID)" = "active/$pid" ] || fail "a bad conf ended the service"
inside rm /etc/cairn/conf.d/wrong.toml
shown systemctl reload cairnd

say "kill -9 while a program writes"
sold pos 300 &
seller=$!
sleep 0.5
shown systemctl kill --kill-whom=main -s KILL cairnd
wait "$seller"
restarted() { [ "$(property NRestarts)/$(property ActiveState)" = "1/active" ]; }
until_true 20 "systemd starts it again" restarted
until_true 20 "nothing is lost" equal pos hq
echo "  restarts: $(property NRestarts), rows: $(pos /srv/pos/pos.db 'SELECT count(*) FROM sale')"

say "stop"
stopping=$(date +%s%N)
shown systemctl stop cairnd
echo "  took $((($(date +%s%N) - stopping) / 1000000)) ms"
[ "$(property ActiveState)/$(property Result)/$(property ExecMainStatus)" = inactive/success/0 ] ||
  fail "stopped with $(property ActiveState), $(property Result), status $(property ExecMainStatus)"
sold pos 20

say "all workers hang"
inside tee /etc/systemd/system/cairnd.service.d/hang.conf >/dev/null <<'UNIT'
[Service]
Environment=CAIRN_TEST_HANG=all
WatchdogSec=3s
UNIT
inside systemctl daemon-reload
inside systemctl start cairnd || true
barked() { inside journalctl -u cairnd --no-pager -o cat | grep 'Watchdog timeout'; }
until_true 40 "the watchdog fires" barked
barked | sed 's/^/  /'
inside rm /etc/systemd/system/cairnd.service.d/hang.conf
inside systemctl daemon-reload
shown systemctl restart cairnd
until_true 20 "after it all rows are there" equal pos hq

say "the journal"
shown journalctl -u cairnd --no-pager -n 15 -o short-precise

say "uninstall"
shown systemctl disable --now cairnd
"${make[@]}" uninstall
[ -z "$(find "$root"/usr/{bin,lib/systemd,lib/sysusers.d,lib/tmpfiles.d,share/man/man?,share/bash-completion,share/doc/cairn} -name 'cairn*' 2>/dev/null)" ] ||
  fail "files are left"
[ -e "$root/etc/cairn/cairn.toml" ] && [ -d "$root/var/lib/cairn" ] || fail "conf or state is gone"
say "all is as it must be"

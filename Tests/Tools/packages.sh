#!/bin/bash
# The Debian packages in booted systems of their own: install, replicate, upgrade while a program writes, remove, purge.
#
#     packages.sh DEBS ROOTS [SUITE...]     suites: bookworm trixie (default)
#
# DEBS is a folder with the packages ('make deb'). ROOTS keeps a minimal system for each suite, made by debootstrap at
# the first run. systemd-nspawn boots it on an overlay, so it stays clean. The version before is made of the same files
# with a lower number, unless OLDER names a folder with packages of an earlier version.
#
# Each step is printed. Exit status 0 only if all was as it must be. Exit status 77, with the reason, if this machine
# cannot: it needs root, overlayfs, debootstrap, systemd-nspawn and a mirror of Debian.
set -euo pipefail
export LC_ALL=C.UTF-8
[ $# -ge 2 ] || { sed -n '4p' "$0" >&2; exit 64; }
debs=$(cd "$1" && pwd)
mkdir -p "$2"
roots=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- bookworm trixie

cannot() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || cannot "only root can start a container"
for tool in debootstrap systemd-nspawn nsenter dpkg-deb; do
  command -v $tool >/dev/null || cannot "there is no $tool (packages debootstrap, systemd-container, util-linux, dpkg)"
done

older=${OLDER:-}
# Packages with the same files, and a version that comes before.
make_older() {
  local deb tree version
  older=$work/older
  mkdir "$older"
  for deb in "$debs"/cairn_*.deb "$debs"/cairnd_*.deb; do
    tree=$older/tree
    version=$(dpkg-deb -f "$deb" Version)
    dpkg-deb -R "$deb" "$tree"
    sed -i -e "s/^Version: .*/&~before/" -e "s/(= $version)/(= $version~before)/" "$tree/DEBIAN/control"
    dpkg-deb -Zgzip -z1 --root-owner-group -b "$tree" "$older/$(basename "${deb/_$version/_$version~before}")" >/dev/null
    rm -r "$tree"
  done
}

say() { printf '\n== %s: %s (%d s)\n' "$suite" "$*" $SECONDS; }
shown() { printf '$ %s\n' "$*"; inside "$@" 2>&1 | sed 's/^/  /'; }
fail() {
  printf '\npackages: %s: %s\n' "$suite" "$*"
  inside journalctl -u cairnd --no-pager -o short-precise 2>&1 | tail -n 20 || true
  exit 1
}

# MARK: The machine

work=$(mktemp -d /run/cairn-packages-XXXXXX)
root=$work/root
machine=
leader=
shut_down() {
  [ -z "$machine" ] || {
    [ -z "$leader" ] || kill -s SIGRTMIN+4 "$leader" 2>/dev/null || true
    for _ in $(seq 100); do kill -0 "$machine" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  }
  machine=
  leader=
  umount "$root" 2>/dev/null || true
  umount "$work/disk" 2>/dev/null || true
}
trap 'shut_down; rm -rf "$work"' EXIT

inside() { nsenter -t "$leader" -a -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
until_true() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "waited in vain: $what"
    sleep 0.2
  done
}

boot() {
  if [ ! -e "$roots/$suite/.complete" ]; then
    rm -rf "${roots:?}/$suite"
    timeout 900 debootstrap --variant=minbase --include=systemd,systemd-sysv,sqlite3 \
      "$suite" "$roots/$suite" >"$roots/$suite.log" 2>&1 || cannot "debootstrap of $suite: $(tail -n 1 "$roots/$suite.log")"
    rm -f "$roots/$suite"/var/cache/apt/archives/*.deb
    touch "$roots/$suite/.complete"
  fi
  mkdir -p "$root" "$work/disk"
  mount -t tmpfs tmpfs "$work/disk" 2>/dev/null || cannot "mount is not allowed here"
  mkdir "$work/disk/upper" "$work/disk/work"
  mount -t overlay overlay -o "lowerdir=$roots/$suite,upperdir=$work/disk/upper,workdir=$work/disk/work" "$root" 2>/dev/null ||
    cannot "overlayfs cannot be mounted here"
  rm -f "$root/.complete"
  mkdir "$root/debs" "$root/older"
  local deb
  for deb in "$debs"/*.deb; do [[ $deb == *-dbgsym_* ]] || cp "$deb" "$root/debs/$(basename "${deb%%_*}").deb"; done
  for deb in "$older"/cairn{,d}_*.deb; do cp "$deb" "$root/older/$(basename "${deb%%_*}").deb"; done
  # apt reads packages as a user of its own.
  chmod -R a+rX "$root/debs" "$root/older"
  systemd-nspawn -D "$root" -b --register=no --keep-unit --machine="cairn-$suite" --console=pipe --link-journal=no \
    --resolv-conf=copy-host </dev/null >"$work/console" 2>&1 &
  machine=$!
  for i in $(seq 150); do
    leader=$(pgrep -P "$machine" || true)
    [ -z "$leader" ] || case $(inside systemctl is-system-running 2>/dev/null || true) in running | degraded) break ;; esac
    kill -0 "$machine" 2>/dev/null || cannot "no container starts here: $(tail -n 1 "$work/console")"
    [ "$i" != 150 ] || cannot "the container does not boot here: $(tail -n 1 "$work/console")"
    sleep 0.2
  done
  until_true 60 "the lists of packages" inside apt-get update -q
}

# MARK: The steps

property() { inside systemctl show -P "$1" cairnd; }
version() { inside dpkg-query -W -f '${Version}' cairnd; }
pos() { inside setpriv --reuid cashier --regid cashier --clear-groups sqlite3 -bail -cmd '.timeout 10000' /srv/pos/pos.db "$@"; }
hq() { inside setpriv --reuid cairn --regid cairn --clear-groups sqlite3 -bail -readonly -cmd '.timeout 10000' /srv/hq/hq.db "$@"; }
digest='SELECT count(*), sum(price), group_concat(id || item || price) FROM (SELECT * FROM sale ORDER BY id)'
equal() { [ "$(pos "$digest")" = "$(hq "$digest")" ]; }
well() { inside cairn status; }
own_objects() { inside sqlite3 /srv/pos/pos.db "SELECT count(*) FROM sqlite_master WHERE name LIKE 'cairn\_%' ESCAPE '\\'"; }
names() { [[ $1 == *"$2"* ]] || fail "it does not say: $2"; }

write_conf() {
  inside useradd --no-create-home cashier
  inside usermod -aG cashier cairn
  inside install -d -m 2770 -o cashier -g cashier /srv/pos
  inside install -d -m 2770 -o cairn -g cairn /srv/hq
  pos "PRAGMA journal_mode = wal; CREATE TABLE sale (id INTEGER PRIMARY KEY, item TEXT, price REAL);
    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO sale SELECT i, 'item ' || i, i / 4.0 FROM n" >/dev/null
  inside chmod 660 /srv/pos/pos.db
  inside mkdir -p /etc/systemd/system/cairnd.service.d
  inside sh -c "sed 's,^ReadWritePaths=.*,ReadWritePaths=/srv/pos /srv/hq,' /usr/share/doc/cairn/systemd/sqlite.conf.example \
    >/etc/systemd/system/cairnd.service.d/sqlite.conf"
  inside sed -i 's,^#name = .*,name = "store-1",' /etc/cairn/cairn.toml
  inside tee /etc/cairn/conf.d/pos.toml >/dev/null <<'CONF'
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
}

sell() { # SECONDS: a program that writes all the time, so long or until /run/closed, and says how many sales it made
  inside rm -f /run/closed
  inside setpriv --reuid cashier --regid cashier --clear-groups sh -c '
    end=$(($(date +%s) + $1)) i=0
    while [ ! -e /run/closed ] && [ $(date +%s) -lt $end ]; do
      sqlite3 -bail -cmd ".timeout 30000" /srv/pos/pos.db "INSERT INTO sale(item, price) VALUES ($i, $i * 0.25)" \
        "UPDATE sale SET price = price + 1 WHERE id = $i % 500 + 1" || exit 1
      i=$((i + 1))
    done
    echo $i' sh "$1"
}

trial() {
  say "boot"
  boot
  say "install the version before"
  inside apt-get install -y -q --no-install-recommends /older/cairn.deb /older/cairnd.deb >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "it does not install"; }
  tail -n 5 "$work/log" | sed 's/^/  /'
  local before
  before=$(version)
  shown id cairn
  shown stat -c '%a %U %G %n' /etc/cairn /etc/cairn/cairn.toml /etc/cairn/credentials /var/lib/cairn
  [ "$(inside systemctl is-enabled cairnd || true)/$(property ActiveState)" = disabled/inactive ] ||
    fail "it is enabled or runs before the administrator says so"
  ! inside cairn check --config /etc/cairn >/dev/null 2>&1 || fail "a node without a name is taken"

  say "a pair by its conf"
  inside systemctl daemon-reload
  write_conf
  inside cairn check --config /etc/cairn | tail -n 1 | sed 's/^/  /'
  inside systemctl daemon-reload
  shown systemctl enable --now cairnd || fail "it does not start"
  until_true 20 "the first copy" equal
  until_true 10 "cairn status finds all well" well

  say "upgrade while a program writes"
  sell 300 >"$work/sold" &
  local seller=$! pid
  sleep 1
  pid=$(property MainPID)
  inside apt-get install -y -q --no-install-recommends /debs/cairn.deb /debs/cairnd.deb /debs/cairn-doc.deb \
    /debs/libcairn0.deb /debs/libcairn-dev.deb >"$work/log" 2>&1 || { cat "$work/log"; fail "no upgrade"; }
  kill -0 $seller 2>/dev/null || fail "the program ended before the upgrade did"
  [ "$(version)" != "$before" ] || fail "the version is the same"
  [ "$(property ActiveState)" = active ] && [ "$(property MainPID)" != "$pid" ] || fail "it was not restarted"
  sleep 1
  inside touch /run/closed
  wait $seller
  until_true 20 "nothing is lost" equal
  until_true 10 "all is well after the upgrade" well
  echo "  $before -> $(version), $(cat "$work/sold") sales meanwhile, $(pos 'SELECT count(*) FROM sale') rows at both ends"
  inside cmp /usr/share/doc/cairn/conf/starter.toml /etc/cairn/cairn.toml >/dev/null && fail "the conf is no longer the administrator's"
  shown cairn --version
  inside test -e /usr/share/doc/cairn/docs/guides/install.md || fail "there are no documents"
  for page in cairn.1 cairn.toml.5 cairnd.8; do inside test -e "/usr/share/man/man${page##*.}/$page.gz" || fail "no $page"; done

  say "an upgrade leaves a stopped daemon stopped"
  inside systemctl stop cairnd
  inside dpkg -i /older/cairn.deb /older/cairnd.deb >/dev/null 2>&1 || fail "no way back"
  inside dpkg -i /debs/cairn.deb /debs/cairnd.deb >/dev/null 2>&1 || fail "no upgrade"
  [ "$(property ActiveState)" = inactive ] || fail "it was started"
  inside systemctl start cairnd
  until_true 20 "it goes on" equal

  say "remove: the databases are named"
  local said
  said=$(inside apt-get remove -y -q cairnd 2>&1) || fail "remove fails: $said"
  grep -A 6 '^cairnd: ' <<<"$said" | sed 's/^/  /'
  names "$said" "cairn detach 'sqlite:/srv/pos/pos.db'  # capture.pos"
  names "$said" "cairn detach 'sqlite:/srv/hq/hq.db'  # apply.hq"
  inside test -e /etc/cairn/cairn.toml || fail "the conf is gone"
  inside test -d /var/lib/cairn/store-1.pos || fail "the trail is gone"
  ! inside sh -c 'ls -l /proc/[0-9]*/exe 2>/dev/null' | grep -q /usr/bin/cairnd || fail "it still runs"
  for file in /usr/bin/cairnd /lib/systemd/system/cairnd.service; do ! inside test -e $file || fail "$file is left"; done
  (($(own_objects) > 0)) || fail "nothing was left to detach"

  say "install again: it goes on where it stopped"
  sell 1 >/dev/null
  inside apt-get install -y -q --no-install-recommends /debs/cairnd.deb >/dev/null 2>&1 || fail "no second installation"
  inside systemctl start cairnd
  until_true 20 "what was sold meanwhile arrives" equal
  [ "$(inside systemctl is-enabled cairnd)" = enabled ] || fail "it is no longer enabled"

  say "purge: the databases are named once more"
  said=$(inside apt-get purge -y -q cairnd 2>&1) || fail "purge fails: $said"
  grep -A 4 '^cairnd: when' <<<"$said" | sed 's/^/  /'
  names "${said##*cairnd: when}" "cairn detach 'sqlite:/srv/pos/pos.db'  # capture.pos"
  ! inside test -e /etc/cairn || fail "conf is left"
  ! inside test -e /var/lib/cairn || fail "state is left"
  ! inside test -e /etc/systemd/system/multi-user.target.wants/cairnd.service || fail "it is still enabled"
  shown cairn detach sqlite:/srv/pos/pos.db
  [ "$(own_objects)" = 0 ] || fail "something is left in the database"
  said=$(inside apt-get purge -y -q cairn cairn-doc libcairn0 libcairn-dev 2>&1) || fail "purge of the rest fails: $said"
  shut_down
}

[ -n "$older" ] || make_older
for suite in "$@"; do trial; done
printf '\nall is as it must be (%d s)\n' $SECONDS

#!/bin/bash
# A private PostgreSQL server on a Unix socket, for tests and demos.
#
#     pgserver.sh start FOLDER [--while PID] [NAME=VALUE...]   makes a server in the empty or new FOLDER and starts it
#     pgserver.sh restart FOLDER                               has it crash, and starts it again
#     pgserver.sh stop FOLDER                                  ends it, and removes FOLDER
#
# The socket is in FOLDER, whose path must be short (a socket's path has at most 107 bytes). The superuser is
# 'postgres', without a password: psql "postgresql:///postgres?host=FOLDER&user=postgres". NAME=VALUE are further
# settings. With --while it ends by itself, folder and all, once that process is gone. PostgreSQL refuses to run as
# root, so there the server runs as the user postgres, or as `nobody`. Exit status 1, with the reason on stderr, if no
# server can be had.
set -euo pipefail
export LC_ALL=C.UTF-8

usage() { sed -n '4,6s/^# *//p' "$0" >&2; exit 64; }
[ $# -ge 2 ] || usage
what=$1 folder=$2
shift 2

programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -n | tail -n 1)
if [ ! -x "$programs/initdb" ] || [ ! -x "$programs/postgres" ]; then
  echo "there is no PostgreSQL server in /usr/lib/postgresql ('make setup' installs it)" >&2
  exit 1
fi
as=()
if [ "$(id -u)" = 0 ]; then
  user=postgres
  id -u "$user" >/dev/null 2>&1 || user=nobody
  as=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")" --clear-groups)
fi
pg() { (cd "$folder" && exec "${as[@]}" "$programs/$1" "${@:2}") </dev/null; }

case $what in
  start)
    keeper=
    if [ "${1:-}" = --while ]; then
      keeper=$2
      shift 2
    fi
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
    chmod 700 "$folder"
    [ ${#as[@]} -eq 0 ] || chown "$user:" "$folder"
    pg initdb -D "$folder/data" -U postgres --auth=trust --no-sync -E UTF8 --locale=C.UTF-8 >/dev/null
    {
      echo "listen_addresses = ''"
      echo "unix_socket_directories = '$folder'"
      echo "wal_level = logical"
      echo "max_replication_slots = 20"
      echo "max_wal_senders = 20"
      echo "fsync = off"
      for setting in "$@"; do echo "${setting%%=*} = '${setting#*=}'"; done
    } >>"$folder/data/postgresql.conf"
    if ! pg pg_ctl -D "$folder/data" -l "$folder/log" -w -t 60 start >/dev/null; then
      tail -n 5 "$folder/log" >&2
      exit 1
    fi
    if [ -n "$keeper" ]; then
      setsid sh -c 'while kill -0 "$1" 2>/dev/null && [ -d "$2" ]; do sleep 1; done; [ ! -d "$2" ] || exec "$0" stop "$2"' \
        "$(realpath "$0")" "$keeper" "$folder" >/dev/null 2>&1 </dev/null &
    fi
    ;;
  restart)
    pg pg_ctl -D "$folder/data" -l "$folder/log" -m immediate -w -t 60 restart >/dev/null
    ;;
  stop)
    [ ! -d "$folder/data" ] || pg pg_ctl -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$folder"
    ;;
  *) usage ;;
esac

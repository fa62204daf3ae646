/*
 * Keeps a list of what is on a shelf, and synchronises it when there is a line.
 *
 *     cc shelf.c $(pkg-config --cflags --libs cairn) -o shelf
 *     ./shelf shelf.db postgresql://user@host/db NODE NAME PIECES
 */
#include <cairn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cairn_code code, const char *what) {
  if (code == CAIRN_OK) return;
  fprintf(stderr, "shelf: cannot %s: %s\n", what, cairn_error_message());
  if (*cairn_error_hint()) fprintf(stderr, "shelf: %s\n", cairn_error_hint());
  exit(1);
}

struct item {
  const char *name;
  int64_t pieces;
};

/* One transaction: all of it or nothing. Whatever is not 0 rolls back. */
static int put(cairn_database *shop, void *context) {
  const struct item *item = context;
  cairn_value values[] = {cairn_text(item->name), cairn_integer(item->pieces)};
  return cairn_execute(
      shop, "INSERT INTO shelf VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET pieces = pieces + excluded.pieces", values,
      2, NULL);
}

static void show(const cairn_sync_progress *progress, void *context) {
  (void)context;
  if (progress->table) printf("copying %s: %" PRIu64 " rows\n", progress->table, progress->table_rows);
}

int main(int count, char **words) {
  if (count != 6) {
    fprintf(stderr, "usage: shelf FILE PEER NODE NAME PIECES\n");
    return 64;
  }
  cairn_database *shop;
  cairn_sync *line;
  check(cairn_open(words[1], words[3], NULL, &shop), "open the database");
  check(cairn_sync_open(shop, words[2], NULL, &line), "use this peer");

  /* The first time the table comes from the peer; afterwards this is like cairn_sync_run, and needs no line to go on. */
  cairn_code first = cairn_sync_initialize(line, show, NULL, NULL);
  if (first != CAIRN_UNREACHABLE) check(first, "initialise");

  struct item item = {words[4], strtoll(words[5], NULL, 10)};
  int64_t token = 0;
  check(cairn_transaction(shop, put, &item, &token), "put it on the shelf");

  cairn_sync_outcome outcome;
  cairn_code code = cairn_sync_run(line, show, NULL, &outcome);
  if (code == CAIRN_UNREACHABLE) {
    printf("no line: %s goes up later\n", item.name);
  } else {
    check(code, "synchronise");
    int there = 0;
    check(cairn_sync_wait(line, token, 5000, &there), "wait");
    printf("sent %" PRIu64 ", received %" PRIu64 ", there: %d\n", outcome.rows_sent, outcome.rows_received, there);
  }

  cairn_rows *rows;
  check(cairn_query(shop, "SELECT name, pieces FROM shelf ORDER BY name", NULL, 0, &rows), "read the shelf");
  while (cairn_rows_next(rows))
    printf("%s %" PRId64 "\n", (const char *)cairn_rows_value(rows, 0).bytes, cairn_rows_value(rows, 1).integer);
  cairn_rows_close(rows);

  cairn_sync_close(line);
  check(cairn_close(shop), "close");
  return 0;
}

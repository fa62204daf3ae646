/*
 * Cairn as a library: an SQLite database whose commits are captured, and its synchronisation with PostgreSQL or with
 * another SQLite file. The manual is docs/guides/embedding.md. Link with `pkg-config --cflags --libs cairn`.
 *
 * Threads. Any thread may use any handle, and several threads may use one handle at once: calls for one database wait
 * for each other. If a synchronisation of the database is running, another one returns CAIRN_ALREADY_RUNNING. A
 * function that gets a closed handle returns CAIRN_MISUSE, or does nothing. Exceptions: only one thread at a time may
 * use a cairn_rows. While a thread is inside a transaction, all other threads wait for the database. While a
 * synchronisation runs in another thread, cairn_sync_cancel and cairn_sync_pending may be called. The library starts
 * threads of its own only during a synchronisation; callbacks always run on the thread of the caller. After fork(), a
 * child may not use the handles of its parent; it may exec.
 *
 * Errors. A function that can fail returns a cairn_code. The library keeps the last error of each thread:
 * cairn_error_message, cairn_error_hint and cairn_error_sqlite_code return it until the next failed call of the thread.
 * Messages contain no bound values. The exception is CAIRN_REFUSED from a synchronisation: its message has the key of
 * the row, and the value that a database refused.
 *
 * Texts are UTF-8; any other text is refused with CAIRN_MISUSE. Functions copy the texts and values that they are
 * given. The comment of a function says how long its result is valid.
 */
#ifndef CAIRN_H
#define CAIRN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_database cairn_database;
typedef struct cairn_rows cairn_rows;
typedef struct cairn_sync cairn_sync;

/* The result of a call. A number never gets another meaning; later versions may add numbers. */
typedef enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_BUSY = 1,              /* another connection has a lock: try again */
  CAIRN_CONSTRAINT = 2,        /* a constraint refused the row */
  CAIRN_FULL = 3,              /* a disk, or the limit of the file, is full */
  CAIRN_CANNOT_OPEN = 4,
  CAIRN_READ_ONLY = 5,
  CAIRN_NOT_A_DATABASE = 6,
  CAIRN_DAMAGED = 7,
  CAIRN_IO = 8,                /* a disk failed, or a file cannot be read or written */
  CAIRN_REFUSED = 9,           /* an error in the statement, or a database refused a row of a synchronisation */
  CAIRN_TRANSACTION = 10,      /* a transaction inside another one, or a use outside of a transaction */
  CAIRN_PARAMETERS = 11,       /* the number of values differs from that of the parameters */
  CAIRN_MISUSE = 12,           /* a null pointer, an unknown type, not exactly one statement, an invalid name */
  CAIRN_ROLLED_BACK = 13,      /* the callback of a transaction or savepoint did not return 0 */
  CAIRN_CAPTURE = 14,          /* the capture in the file cannot be used, or another node captures the file */
  CAIRN_CANCELLED = 20,
  CAIRN_UNREACHABLE = 21,      /* no connection to the peer: try again later */
  CAIRN_ALREADY_RUNNING = 22,
  CAIRN_NOT_INITIALIZED = 23,  /* cairn_sync_initialize has not been called */
  CAIRN_ADDRESS = 24,
  CAIRN_NOT_ALLOWED = 25,      /* a login, a privilege or a setting of the server is missing */
  CAIRN_ROWS_IN_THE_WAY = 26,  /* the database that the first copy would fill has rows */
  CAIRN_SCHEMA = 27,           /* a table is suspended until its schema changes; the hint has the change */
  CAIRN_TABLE = 28,            /* a table cannot be replicated both ways; for example, it has no key */
  CAIRN_WENT_BACK = 29,        /* a database was restored from a backup: a first copy is needed */
  CAIRN_CLOCK = 30,            /* one clock is ahead: its commits are applied when the other one gets there */
  CAIRN_OTHER = 99
} cairn_code;

/* The message and the hint of the last failed call of this thread; empty if no call has failed. */
const char *cairn_error_message(void);
const char *cairn_error_hint(void);
/* SQLite's extended result code of the last failed call of this thread; 0 if the error was not SQLite's. */
int cairn_error_sqlite_code(void);

/* The version of the library, such as "0.2.0". */
const char *cairn_version(void);

/* ---- Values ---- */

typedef enum cairn_type {
  CAIRN_NULL = 0,
  CAIRN_INTEGER = 1,
  CAIRN_REAL = 2,
  CAIRN_TEXT = 3,
  CAIRN_BLOB = 4
} cairn_type;

/* One value. The type decides which member is valid. The size of a text is in bytes, without a final 0.

       cairn_value values[] = {cairn_text("tea"), cairn_real(3.5)}; */
typedef struct cairn_value {
  cairn_type type;
  int64_t integer;
  double real;
  const void *bytes;
  size_t size;
} cairn_value;

static inline cairn_value cairn_null(void) {
  cairn_value value = {CAIRN_NULL, 0, 0, NULL, 0};
  return value;
}
static inline cairn_value cairn_integer(int64_t number) {
  cairn_value value = {CAIRN_INTEGER, number, 0, NULL, 0};
  return value;
}
static inline cairn_value cairn_real(double number) {
  cairn_value value = {CAIRN_REAL, 0, number, NULL, 0};
  return value;
}
/* Returns the value of a text that ends with 0; for a null pointer, the value NULL. */
static inline cairn_value cairn_text(const char *text) {
  cairn_value value = {text ? CAIRN_TEXT : CAIRN_NULL, 0, 0, text, 0};
  if (text)
    while (text[value.size]) value.size++;
  return value;
}
static inline cairn_value cairn_blob(const void *bytes, size_t size) {
  cairn_value value = {CAIRN_BLOB, 0, 0, bytes, size};
  return value;
}

/* ---- Databases ---- */

/* The options of a database.

       cairn_options options = CAIRN_OPTIONS;
       options.busy_timeout_milliseconds = 30000; */
typedef struct cairn_options {
  /* sizeof(cairn_options), as in CAIRN_OPTIONS. */
  size_t size;
  /* The longest wait for a lock of another connection; after it, a call returns CAIRN_BUSY. */
  int64_t busy_timeout_milliseconds;
  /* Whether commits are captured. 0: the library adds nothing to the file. */
  int captures;
  /* Whether executed statements are captured too. 0: only rows are. */
  int keeps_statements;
} cairn_options;

#define CAIRN_OPTIONS {sizeof(cairn_options), 5000, 1, 1}

/* Opens a database file, or creates it. Adds the triggers and tables of capture if they are missing. `node` is the name
   of this installation: letters, digits, - and _. No two installations may have one name. `options` may be NULL.

       cairn_database *shop;
       if (cairn_open("shop.db", "till-7", NULL, &shop) != CAIRN_OK) puts(cairn_error_message()); */
cairn_code cairn_open(const char *path, const char *node, const cairn_options *options, cairn_database **database);

/* Does the same as cairn_open on a connection (sqlite3 *) of the program. The program may use the connection, and must
   close it after the database. */
cairn_code cairn_open_connection(
    void *connection, const char *node, const cairn_options *options, cairn_database **database);

/* Closes the database. Inside a transaction, it is refused and the handle stays open. NULL counts as closed. */
cairn_code cairn_close(cairn_database *database);

/* Executes one statement. Outside of a transaction, the statement is a transaction of its own. `changed` becomes the
   number of rows that it inserted, updated or deleted; it may be NULL. */
cairn_code cairn_execute(
    cairn_database *database, const char *sql, const cairn_value *parameters, size_t count, int64_t *changed);

/* Gets a copy of all rows of a query, or of a statement with RETURNING. The caller closes the rows.

       cairn_rows *rows;
       cairn_query(shop, "SELECT stock FROM item WHERE name = ?", (cairn_value[]){cairn_text("tea")}, 1, &rows);
       while (cairn_rows_next(rows)) printf("%lld\n", (long long)cairn_rows_value(rows, 0).integer); */
cairn_code cairn_query(
    cairn_database *database, const char *sql, const cairn_value *parameters, size_t count, cairn_rows **rows);

int64_t cairn_last_insert_rowid(cairn_database *database);

/* Moves to the next row; the first call moves to the first row. Returns 1, or 0 after the last row. */
int cairn_rows_next(cairn_rows *rows);
int cairn_rows_column_count(cairn_rows *rows);
/* Returns the name of a column, from 0; NULL if there is no such column, or no row at all. It is valid until the rows
   are closed. */
const char *cairn_rows_column_name(cairn_rows *rows, int column);
/* Returns a value of the current row; NULL if there is none. Texts end with 0. The value is valid until the next call
   of cairn_rows_next or cairn_rows_close. */
cairn_value cairn_rows_value(cairn_rows *rows, int column);
void cairn_rows_close(cairn_rows *rows);

/* Runs `body` in a transaction, and commits if `body` returns 0. Otherwise rolls back and returns CAIRN_ROLLED_BACK.
   `body` uses the database as usual. `token` identifies the commit for cairn_sync_wait; it may be NULL.

       int sell(cairn_database *shop, void *context) {
         return cairn_execute(shop, "UPDATE item SET stock = stock - 1", NULL, 0, NULL);
       } */
cairn_code cairn_transaction(
    cairn_database *database, int (*body)(cairn_database *database, void *context), void *context, int64_t *token);

/* Runs `body` in a savepoint, inside a transaction. If `body` does not return 0, only its changes are rolled back. */
cairn_code cairn_savepoint(
    cairn_database *database, int (*body)(cairn_database *database, void *context), void *context);

/* The commits that no synchronisation and no daemon has captured yet. */
typedef struct cairn_pending {
  int64_t transactions;
  int64_t rows;
  /* For a synchronisation: the transactions that it captured and that the peer may lack. */
  int64_t unsent;
} cairn_pending;

cairn_code cairn_database_pending(cairn_database *database, cairn_pending *pending);

/* ---- Synchronisation ---- */

/* The options of a synchronisation.

       cairn_sync_options options = CAIRN_SYNC_OPTIONS;
       options.tables = "item,sale"; */
typedef struct cairn_sync_options {
  /* sizeof(cairn_sync_options), as in CAIRN_SYNC_OPTIONS. */
  size_t size;
  /* The folder for trails and checkpoints; NULL: a folder beside the database. */
  const char *state;
  /* The replicated tables, separated by commas; NULL: all. */
  const char *tables;
  /* Not 0: the first copy (initial load) goes from the database to the peer. The setting has no effect after the first
     copy has begun. */
  int first_copy_up;
  /* Not 0: the first copy may replace existing rows. 0: it stops with CAIRN_ROWS_IN_THE_WAY if there are any. */
  int overwrites;
  /* Not 0: a transaction that a database refuses is quarantined, and all others continue. */
  int sets_refused_aside;
  /* The rule that resolves conflicts of rows; NULL: "newest". */
  const char *conflict;
  /* The rules of single columns, such as "item.stock=delta,item.note=merge-text"; NULL: none. */
  const char *column_conflicts;
  /* Not 0: changes since the last synchronisation that cancel each other out are not sent. */
  int folds;
} cairn_sync_options;

#define CAIRN_SYNC_OPTIONS {sizeof(cairn_sync_options), NULL, NULL, 0, 0, 0, NULL, NULL, 0}

typedef struct cairn_sync_outcome {
  uint64_t rows_sent;
  uint64_t rows_received;
  int64_t conflicts;
  /* The number of transactions in quarantine at either end. */
  int64_t refused;
} cairn_sync_outcome;

typedef struct cairn_sync_progress {
  uint64_t rows_sent;
  uint64_t rows_received;
  int64_t conflicts;
  /* The table that the first copy is reading, valid during the call; NULL: no table is being copied. */
  const char *table;
  uint64_t table_rows;
  uint64_t table_rows_expected;
} cairn_sync_progress;

/* A function that is called some 20 times a second, on the thread of the caller. It may call cairn_sync_cancel. */
typedef void (*cairn_sync_watcher)(const cairn_sync_progress *progress, void *context);

/* Prepares the synchronisation with `peer`: postgresql://user@host/db or sqlite:other.db. It does not connect yet.
   `options` may be NULL. Close the synchronisation before the database.

       cairn_sync *sync;
       cairn_sync_open(shop, "postgresql://till@db.example/shop", NULL, &sync);
       cairn_sync_initialize(sync, NULL, NULL, NULL); */
cairn_code cairn_sync_open(
    cairn_database *database, const char *peer, const cairn_sync_options *options, cairn_sync **sync);

/* Creates missing tables and makes the first copy of the rows. Call it once, before cairn_sync_run. `watcher` and
   `outcome` may be NULL. */
cairn_code cairn_sync_initialize(
    cairn_sync *sync, cairn_sync_watcher watcher, void *context, cairn_sync_outcome *outcome);

/* Brings everything that was committed at either end before the call to the other end. */
cairn_code cairn_sync_run(
    cairn_sync *sync, cairn_sync_watcher watcher, void *context, cairn_sync_outcome *outcome);

/* Makes a running synchronisation end after the transaction that it is writing. Any thread may call it. */
void cairn_sync_cancel(cairn_sync *sync);

cairn_code cairn_sync_pending(cairn_sync *sync, cairn_pending *pending);

/* Waits until the peer has the commit that `token` identifies, for at most `timeout_milliseconds`. Synchronises if no
   other thread does. `applied` becomes 1 if the peer has the commit, and 0 if the time ran out. Returns CAIRN_REFUSED
   if the peer has quarantined the commit. */
cairn_code cairn_sync_wait(cairn_sync *sync, int64_t token, int64_t timeout_milliseconds, int *applied);

void cairn_sync_close(cairn_sync *sync);

#ifdef __cplusplus
}
#endif

#endif

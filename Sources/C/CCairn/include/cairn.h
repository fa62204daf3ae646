/*
 * Cairn inside of a program: an SQLite database whose commits are captured, and its synchronisation with PostgreSQL or with
 * another SQLite file. The manual is docs/guides/embedding.md. Link with `pkg-config --cflags --libs cairn`.
 *
 * Threads. Any thread may use any handle, also several at once: calls for one database wait for each other; a synchronisation
 * while another one of the same database is under way gets CAIRN_ALREADY_RUNNING. A handle that is closed is
 * known as such: where it is used or closed again, a function gives CAIRN_MISUSE, or nothing. Exceptions: a cairn_rows is used by one thread at a time; inside of a transaction only the
 * thread that is in it gets to the database, all others wait. cairn_sync_cancel and cairn_sync_pending may be called while a synchronisation runs in another thread. The
 * library starts threads of its own during a synchronisation only; callbacks come on the thread of the caller, always. After
 * fork() a child may not use handles of its parent; it may exec.
 *
 * Errors. A function that can fail returns a cairn_code. What it was is kept for the thread: cairn_error_message and its
 * neighbours hold until the next call of the same thread that fails. Messages tell no values that were bound; only that of a synchronisation with
 * CAIRN_REFUSED names the row by its key, and the value that an end does not take.
 *
 * Texts are UTF-8; others are refused with CAIRN_MISUSE. What a function takes it copies; what it gives is valid as long as is said with it.
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

/* What a call comes to. Numbers never change their meaning; new ones may come. */
typedef enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_BUSY = 1,              /* a lock of somebody else: try again */
  CAIRN_CONSTRAINT = 2,        /* a constraint refused the row */
  CAIRN_FULL = 3,              /* a disk, or the limit of the file, is full */
  CAIRN_CANNOT_OPEN = 4,
  CAIRN_READ_ONLY = 5,
  CAIRN_NOT_A_DATABASE = 6,
  CAIRN_DAMAGED = 7,
  CAIRN_IO = 8,                /* a disk failed, or a file cannot be read or written */
  CAIRN_REFUSED = 9,           /* a mistake in the statement; an end does not take a row that was synchronised */
  CAIRN_TRANSACTION = 10,      /* a transaction inside of another one, a use outside of one, or of one that is over */
  CAIRN_PARAMETERS = 11,       /* not as many values as the statement has parameters */
  CAIRN_MISUSE = 12,           /* a null pointer, a value of no type, no statement or several in the text, a bad name */
  CAIRN_ROLLED_BACK = 13,      /* the callback of a transaction or savepoint did not return 0 */
  CAIRN_CAPTURE = 14,          /* what stands in the file for capture cannot be used, or somebody else captures it */
  CAIRN_CANCELLED = 20,
  CAIRN_UNREACHABLE = 21,      /* no line to the peer: try again later */
  CAIRN_ALREADY_RUNNING = 22,
  CAIRN_NOT_INITIALIZED = 23,  /* cairn_sync_initialize has not been called */
  CAIRN_ADDRESS = 24,
  CAIRN_NOT_ALLOWED = 25,      /* login, privilege, or setting of the server */
  CAIRN_ROWS_IN_THE_WAY = 26,  /* the end to which the first copy goes holds rows */
  CAIRN_SCHEMA = 27,           /* a table waits for a change of its schema; the hint says which */
  CAIRN_TABLE = 28,            /* a table cannot go both ways: it has no key, for example */
  CAIRN_WENT_BACK = 29,        /* an end was restored from a backup: a first copy is needed */
  CAIRN_CLOCK = 30,            /* a clock was ahead: what was committed then waits until its time has come */
  CAIRN_OTHER = 99
} cairn_code;

/* Of the last call of this thread that failed; empty texts where none has. */
const char *cairn_error_message(void);
const char *cairn_error_hint(void);
/* SQLite's extended result code; 0 where the error was not SQLite's. */
int cairn_error_sqlite_code(void);

/* The version of the library, such as "0.1.0". */
const char *cairn_version(void);

/* ---- Values ---- */

typedef enum cairn_type {
  CAIRN_NULL = 0,
  CAIRN_INTEGER = 1,
  CAIRN_REAL = 2,
  CAIRN_TEXT = 3,
  CAIRN_BLOB = 4
} cairn_type;

/* One value: which member counts is said by the type. Of a text, size counts bytes without a final 0. */
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
/* A text that ends with 0; NULL gives NULL. */
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

typedef struct cairn_options {
  /* sizeof(cairn_options), as CAIRN_OPTIONS says. */
  size_t size;
  /* For how long a call waits for a lock of another connection before it gives CAIRN_BUSY. */
  int64_t busy_timeout_milliseconds;
  /* 0: nothing is put into the file, and nothing is kept. */
  int captures;
  /* 0: rows are kept, executed statements are not. */
  int keeps_statements;
} cairn_options;

#define CAIRN_OPTIONS {sizeof(cairn_options), 5000, 1, 1}

/* Opens a database file, or creates it, and puts capture into it where it is not. `node` is the name of this installation:
   letters, digits, - and _; never give that of one to another. `options` may be NULL. */
cairn_code cairn_open(const char *path, const char *node, const cairn_options *options, cairn_database **database);

/* The same on a connection (sqlite3 *) that the program goes on to use, and closes behind this. */
cairn_code cairn_open_connection(
    void *connection, const char *node, const cairn_options *options, cairn_database **database);

/* Refused inside of a transaction; the handle is good then, and otherwise closed. NULL is taken for closed. */
cairn_code cairn_close(cairn_database *database);

/* Executes one statement, outside of a transaction as one of its own. `changed` (may be NULL): the rows that it inserted,
   updated or deleted. */
cairn_code cairn_execute(
    cairn_database *database, const char *sql, const cairn_value *parameters, size_t count, int64_t *changed);

/* All rows of a query, also of a statement with RETURNING, as a copy. Close them. */
cairn_code cairn_query(
    cairn_database *database, const char *sql, const cairn_value *parameters, size_t count, cairn_rows **rows);

int64_t cairn_last_insert_rowid(cairn_database *database);

/* The next row becomes the one at hand: 1, or 0 behind the last. Begin with it. */
int cairn_rows_next(cairn_rows *rows);
int cairn_rows_column_count(cairn_rows *rows);
/* NULL where there is no such column, or no row at all. Valid until the rows are closed. */
const char *cairn_rows_column_name(cairn_rows *rows, int column);
/* Of the row at hand; NULL where there is none. Texts end with 0. Valid until the next row is at hand, or the rows are closed. */
cairn_value cairn_rows_value(cairn_rows *rows, int column);
void cairn_rows_close(cairn_rows *rows);

/* Runs `body` in a transaction, and commits when it returns 0; otherwise it rolls back, and CAIRN_ROLLED_BACK is returned.
   `body` gets the database, and uses it as ever. `token` (may be NULL) stands for the commit. */
cairn_code cairn_transaction(
    cairn_database *database, int (*body)(cairn_database *database, void *context), void *context, int64_t *token);

/* The same inside of a transaction: what is rolled back is what `body` has done, and nothing else. */
cairn_code cairn_savepoint(
    cairn_database *database, int (*body)(cairn_database *database, void *context), void *context);

/* What was committed, and no synchronisation or daemon has taken yet. */
typedef struct cairn_pending {
  int64_t transactions;
  int64_t rows;
  /* Of a synchronisation: transactions that it took, and that may not be at the peer. */
  int64_t unsent;
} cairn_pending;

cairn_code cairn_database_pending(cairn_database *database, cairn_pending *pending);

/* ---- Synchronisation ---- */

typedef struct cairn_sync_options {
  /* sizeof(cairn_sync_options), as CAIRN_SYNC_OPTIONS says. */
  size_t size;
  /* The folder for trails and checkpoints; NULL: beside the database. */
  const char *state;
  /* Tables that go both ways, parted by commas; NULL: all. */
  const char *tables;
  /* Not 0: the first copy goes from the database to the peer. Has no effect once it has begun. */
  int first_copy_up;
  /* Not 0: the first copy may replace rows. */
  int overwrites;
  /* Not 0: a transaction that an end refuses is put aside, and all others go on. */
  int sets_refused_aside;
  /* How rows are settled that both ends wrote, such as "newest"; NULL: so. */
  const char *conflict;
  /* The same of single columns: "item.stock=delta,item.note=merge-text"; NULL: none has a rule of its own. */
  const char *column_conflicts;
  /* Not 0: of what was committed here since the last synchronisation, what cancels out is not sent. */
  int folds;
} cairn_sync_options;

#define CAIRN_SYNC_OPTIONS {sizeof(cairn_sync_options), NULL, NULL, 0, 0, 0, NULL, NULL, 0}

typedef struct cairn_sync_outcome {
  uint64_t rows_sent;
  uint64_t rows_received;
  int64_t conflicts;
  /* Transactions that are put aside at either end. */
  int64_t refused;
} cairn_sync_outcome;

typedef struct cairn_sync_progress {
  uint64_t rows_sent;
  uint64_t rows_received;
  int64_t conflicts;
  /* The table of a first copy, valid during the call; NULL: none is copied. */
  const char *table;
  uint64_t table_rows;
  uint64_t table_rows_expected;
} cairn_sync_progress;

/* Called some 20 times a second, on the thread of the caller. It may call cairn_sync_cancel. */
typedef void (*cairn_sync_watcher)(const cairn_sync_progress *progress, void *context);

/* `peer`: postgresql://user@host/db or sqlite:other.db. Connects to nothing yet. `options` may be NULL. The database must not be
   closed before. */
cairn_code cairn_sync_open(
    cairn_database *database, const char *peer, const cairn_sync_options *options, cairn_sync **sync);

/* Once: makes the tables that are missing and copies the rows that are there. `watcher` and `outcome` may be NULL. */
cairn_code cairn_sync_initialize(
    cairn_sync *sync, cairn_sync_watcher watcher, void *context, cairn_sync_outcome *outcome);

/* Brings everything that was committed at either end up to now to the other one. */
cairn_code cairn_sync_run(
    cairn_sync *sync, cairn_sync_watcher watcher, void *context, cairn_sync_outcome *outcome);

/* Ends what is under way at the next border of a transaction. Any thread. */
void cairn_sync_cancel(cairn_sync *sync);

cairn_code cairn_sync_pending(cairn_sync *sync, cairn_pending *pending);

/* Waits until a commit is at the peer, and synchronises if nobody does. `applied`: 0 where that took too long. CAIRN_REFUSED: the
   peer has put it aside. */
cairn_code cairn_sync_wait(cairn_sync *sync, int64_t token, int64_t timeout_milliseconds, int *applied);

void cairn_sync_close(cairn_sync *sync);

#ifdef __cplusplus
}
#endif

#endif

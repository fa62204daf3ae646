// What Swift cannot import by itself: variadic functions, macros, and one CPU instruction.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

/// CRC-32C (Castagnoli) of `length` bytes, continuing from `crc` (0 to begin).
uint32_t cairn_crc32c(uint32_t crc, const void *bytes, size_t length);

/// Whether a file has an access control list besides its mode.
int cairn_has_acl(const char *path);

/// sqlite3_db_config for the options that take an int and give one back.
int cairn_db_config_int(sqlite3 *db, int option, int value);

/// Whether such an option is on.
int cairn_db_config_is_on(sqlite3 *db, int option);

/// Binds bytes that SQLite copies (SQLITE_TRANSIENT) or that outlive the step (SQLITE_STATIC).
static inline int cairn_bind_text(sqlite3_stmt *s, int i, const void *p, size_t n, int copy) {
  return sqlite3_bind_text64(s, i, (const char *)p, n, copy ? SQLITE_TRANSIENT : SQLITE_STATIC, SQLITE_UTF8);
}
static inline int cairn_bind_blob(sqlite3_stmt *s, int i, const void *p, size_t n, int copy) {
  return sqlite3_bind_blob64(s, i, p, n, copy ? SQLITE_TRANSIENT : SQLITE_STATIC);
}

enum {
  CAIRN_DBCONFIG_ENABLE_TRIGGER = SQLITE_DBCONFIG_ENABLE_TRIGGER,
  CAIRN_DBCONFIG_ENABLE_FKEY = SQLITE_DBCONFIG_ENABLE_FKEY,
};

/// The user and the process at the other end of a Unix socket, as they were at connect(2): SO_PEERCRED, unix(7). Returns an
/// error number, 0 for none.
int cairn_peer_user(int descriptor, uint32_t *user, int32_t *process);

/// Gives each of two paths the file or folder of the other, in one step: renameat2(2), RENAME_EXCHANGE. Returns an error
/// number, 0 for none.
int cairn_exchange(const char *path, const char *other);

/// sync_file_range(2): lets the disk begin to write a range; nothing is durable by it.
void cairn_begin_writing(int descriptor, uint64_t offset, uint64_t count);

/// How many bytes a TCP socket has received, and its peer has taken, in all; 0 where the kernel does not tell.
uint64_t cairn_tcp_moved(int descriptor);

/// A TCP connection over which nothing comes back for so long is broken by the kernel, also one that is idle.
void cairn_tcp_watch(int descriptor, int seconds);

/// The name of a VFS that is as the usual one, but tells ``cairn_step_watched`` what the time was; NULL where the usual one
/// has no clock that can be watched.
const char *cairn_watching_vfs(void);

/// sqlite3_step. `now` becomes the time that the statement was given (CURRENT_TIMESTAMP and the like), as a Julian day
/// number in ms; 0 when it did not ask. The database must have been opened with the VFS ``cairn_watching_vfs``.
///
/// SQLite asks once in a step, and every use of the time in it, also in triggers, gets that answer
/// (sqlite.org/lang_datefunc.html).
int cairn_step_watched(sqlite3_stmt *statement, sqlite3_int64 *now);

/// Rowids that a connection has given out in `cairn_journal`: the first since `first` was 0, and the last.
struct cairn_journal_watch {
  sqlite3_int64 first;
  sqlite3_int64 last;
};

/// Notes each insert into `cairn_journal` (sqlite3_update_hook). `watch` must live as long as the connection.
void cairn_watch_journal(sqlite3 *db, struct cairn_journal_watch *watch);

/// Whether the library tells of rows as they are written.
int cairn_tells_written(void);

/// Who is told of each row of a table that a statement inserts or updates by itself, not by a trigger.
struct cairn_written_watch {
  const char *table;
  void *context;
  void (*row)(void *context);
};

/// Begins to tell; NULL ends it. `watch` must stay until then.
void cairn_watch_written(sqlite3 *db, struct cairn_written_watch *watch);

/// A value of the row that is told, valid until the call returns; NULL: it cannot be had.
sqlite3_value *cairn_written_value(sqlite3 *db, int column);

/// The file system layer of one connection (``cairn_guard_open``).
struct cairn_guard;

/// Why the layer refused a file.
enum {
  /// It is a symbolic link.
  CAIRN_REFUSAL_LINK = 1,
  /// It is a pipe, a device or a socket.
  CAIRN_REFUSAL_NOT_A_FILE = 2,
  /// It has more than one name.
  CAIRN_REFUSAL_HARD_LINK = 3,
  /// A user owns it who may not write the database.
  CAIRN_REFUSAL_OWNER = 4,
  /// It is neither the database nor its companion: a journal names it, or a statement attaches it.
  CAIRN_REFUSAL_OTHER_FILE = 5,
  /// It was truncated while the connection had it in memory.
  CAIRN_REFUSAL_CUT = 6,
};

/// Installs a handler of SIGBUS, for the whole process: connections of ``cairn_guard_open`` whose `-shm` another process
/// truncates fail from then on, and the process goes on. For every other cause the action that was there before is taken.
///
/// SQLite maps `-shm` into memory, also with mmap_size = 0 (sqlite.org/wal.html#implementation_of_shared_memory_for_the_wal_index).
/// For programs of Cairn only: a library must not change the signals of its host.
void cairn_index_survive(void);

/// Opens a database over a layer that touches only the database, `-journal`, `-wal` and `-shm`, and follows no link to them.
///
/// Without it, SQLite deletes any file that a forged `-journal` names as its super-journal (sqlite.org/tempfiles.html,
/// section 2.3). `guard` is to be freed after the connection was closed, also when the call fails.
int cairn_guard_open(const char *path, int flags, sqlite3 **db, struct cairn_guard **guard);

/// Why the last call of the connection was refused, and for which file; 0 when it was not. Forgets it.
int cairn_guard_refusal(struct cairn_guard *guard, const char **path);

/// Whether `-shm` was truncated while the connection had it in memory: nothing that was read since counts.
int cairn_guard_is_cut(struct cairn_guard *guard);

void cairn_guard_free(struct cairn_guard *guard);

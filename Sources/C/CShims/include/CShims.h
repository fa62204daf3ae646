// Functions for what Swift cannot import: variadic functions, macros, and one CPU instruction.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

/// Returns the CRC-32C (Castagnoli) of `length` bytes, continued from `crc`; 0 to begin.
uint32_t cairn_crc32c(uint32_t crc, const void *bytes, size_t length);

/// Returns whether a file has an access control list besides its mode.
int cairn_has_acl(const char *path);

/// Calls sqlite3_db_config for an option that takes an int and returns one.
int cairn_db_config_int(sqlite3 *db, int option, int value);

/// Returns whether an option of sqlite3_db_config is on.
int cairn_db_config_is_on(sqlite3 *db, int option);

/// Binds bytes. SQLite copies them if `copy` is not 0 (SQLITE_TRANSIENT). Otherwise they must outlive the step.
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

/// Gets the user and the process at the other end of a Unix socket, as they were at connect(2): SO_PEERCRED, unix(7).
/// Returns an error number; 0: no error.
int cairn_peer_user(int descriptor, uint32_t *user, int32_t *process);

/// Exchanges the files or folders at two paths in one step: renameat2(2), RENAME_EXCHANGE. Returns an error number; 0:
/// no error.
int cairn_exchange(const char *path, const char *other);

/// Lets the disk begin to write a range of a file: sync_file_range(2). It makes nothing durable.
void cairn_begin_writing(int descriptor, uint64_t offset, uint64_t count);

/// Makes a descriptor that is readable after 8 bytes were written to it, and never blocks: eventfd(2). Negative: errno says
/// why.
int cairn_wake_descriptor(void);

/// Returns the bytes that a TCP socket received plus those that its peer acknowledged; 0 if the kernel does not report
/// them.
uint64_t cairn_tcp_moved(int descriptor);

/// Makes the kernel break a TCP connection, even an idle one, if its peer does not reply for this number of seconds.
void cairn_tcp_watch(int descriptor, int seconds);

/// Returns the name of a VFS that equals the default one, except that ``cairn_step_watched`` reads the time from it.
/// NULL if the default VFS has no clock in ms.
const char *cairn_watching_vfs(void);

/// Calls sqlite3_step. `now` becomes the time that SQLite gave to the statement (CURRENT_TIMESTAMP and the like), as a
/// Julian day number in ms; 0 if the statement did not ask. The database must use the VFS ``cairn_watching_vfs``.
///
/// SQLite asks the VFS for the time once in a step. Every use of the time in that step, also in triggers, gets that
/// answer (sqlite.org/lang_datefunc.html).
int cairn_step_watched(sqlite3_stmt *statement, sqlite3_int64 *now);

/// The rowids that a connection assigned in `cairn_journal`: the first one since `first` was set to 0, and the last
/// one.
struct cairn_journal_watch {
  sqlite3_int64 first;
  sqlite3_int64 last;
};

/// Stores the rowid of each insert into `cairn_journal` in `watch` (sqlite3_update_hook). `watch` must live as long as
/// the connection.
void cairn_watch_journal(sqlite3 *db, struct cairn_journal_watch *watch);

/// Returns whether the SQLite library can report rows while a statement writes them (sqlite3_preupdate_hook).
int cairn_tells_written(void);

/// The function that is called for each row of a table that a statement itself inserts or updates, not a trigger.
struct cairn_written_watch {
  const char *table;
  void *context;
  void (*row)(void *context);
};

/// Makes SQLite call `watch` for each written row of its table, until a call with NULL. `watch` must live until then.
void cairn_watch_written(sqlite3 *db, struct cairn_written_watch *watch);

/// Returns a value of the row for which ``cairn_written_watch`` is called; NULL if SQLite does not report it. The value
/// is valid until that call returns.
sqlite3_value *cairn_written_value(sqlite3 *db, int column);

/// The file system layer of one connection (``cairn_guard_open``).
struct cairn_guard;

/// The reasons why the file system layer refused a file.
enum {
  /// The path is a symbolic link.
  CAIRN_REFUSAL_LINK = 1,
  /// The path is a pipe, a device or a socket.
  CAIRN_REFUSAL_NOT_A_FILE = 2,
  /// The file has more than one name (hard links).
  CAIRN_REFUSAL_HARD_LINK = 3,
  /// The file belongs to a user who may not write the database.
  CAIRN_REFUSAL_OWNER = 4,
  /// The file is neither the database nor its companion: a journal names it, or a statement attaches it.
  CAIRN_REFUSAL_OTHER_FILE = 5,
  /// The shared memory (`-shm`) was truncated while the connection used it.
  CAIRN_REFUSAL_CUT = 6,
  /// Another process holds a lease on the file, for which open(2) would wait.
  CAIRN_REFUSAL_LEASE = 7,
  /// The shared memory (`-shm`) asks for more regions than a file may have.
  CAIRN_REFUSAL_INDEX = 8,
};

/// Installs a handler of SIGBUS for the whole process. If another process truncates the `-shm` of a database,
/// connections of ``cairn_guard_open`` to it fail from then on, and the process continues. For any other cause of
/// SIGBUS, the action applies that was set before.
///
/// SQLite maps `-shm` into memory, also with mmap_size = 0
/// (sqlite.org/wal.html#implementation_of_shared_memory_for_the_wal_index).
/// Call it in programs of Cairn only: a library must not change the signals of its host.
void cairn_index_survive(void);

/// Lets connections of ``cairn_guard_open`` open no file for which open(2) would wait: they refuse a file with a lease
/// (fcntl(2), F_SETLEASE). SQLite opens `-shm` under a lock of the whole process, for up to 45 seconds with a lease.
///
/// Replaces SQLite's system call `open` (sqlite.org/c3ref/vfs.html, xSetSystemCall). Call it before the process has
/// other threads, and in programs of Cairn only.
void cairn_guard_never_wait(void);

/// Opens a database through a file system layer. The layer touches only the database, `-journal`, `-wal` and `-shm`,
/// and follows no link to them.
///
/// Without the layer, SQLite deletes any file that a forged `-journal` names as its super-journal
/// (sqlite.org/tempfiles.html, section 2.3). Free `guard` after the connection was closed, also if the call fails.
int cairn_guard_open(const char *path, int flags, sqlite3 **db, struct cairn_guard **guard);

/// Returns the reason why the layer refused the last call of the connection, and the path of the file; 0 if it did not.
/// A second call returns 0, unless `-shm` was truncated.
int cairn_guard_refusal(struct cairn_guard *guard, const char **path);

/// Returns whether `-shm` was truncated while the connection used it. Everything read since then is invalid.
int cairn_guard_is_cut(struct cairn_guard *guard);

void cairn_guard_free(struct cairn_guard *guard);

/// The wal-index of a database in WAL mode, as one connection has it in memory. Valid while the connection is open.
struct cairn_log {
  sqlite3_file *file;
  void volatile *memory;
};

enum {
  /// The slots for readers in a wal-index.
  CAIRN_LOG_SLOTS = 5,
  /// The locks for ``cairn_log_is_locked``.
  CAIRN_LOG_WRITE = 0,
  CAIRN_LOG_CHECKPOINT = 1,
};

/// The words of a wal-index: its header, the frames that are copied, the marks of the slots. In the byte order of the
/// machine.
struct cairn_log_look {
  uint32_t header[12];
  uint32_t backfilled;
  uint32_t marks[CAIRN_LOG_SLOTS];
};

/// Finds the wal-index of a connection that has read something in WAL mode. Returns SQLITE_CANTOPEN if there is none.
int cairn_log_open(sqlite3 *db, struct cairn_log *log);

/// Takes or releases a shared lock on a slot for readers, without waiting. Returns a code of SQLite.
int cairn_log_lock(const struct cairn_log *log, int slot, int lock);

/// Reads the wal-index. Returns 0 if a program was writing the header all the time.
int cairn_log_look(const struct cairn_log *log, struct cairn_log_look *look);

/// Returns 1 if a process holds a lock of the wal-index, this one too; 0 if none does; a negative error number if the
/// question failed. Takes no lock (fcntl(2), F_OFD_GETLK).
///
/// - Parameter descriptor: An open `-shm`. Close it only when this process has no connection to the database: close(2)
///   releases the locks of the process.
int cairn_log_is_locked(int descriptor, int lock);

// A file system layer for one connection. A captured file is hostile input. Through this layer, SQLite opens, examines
// and deletes only the database and its companions.
#define _GNU_SOURCE
#include "CShims.h"
#include "index.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The methods of one file. They equal the usual ones, but fail once the shared memory was truncated.
struct guarded_methods {
  sqlite3_io_methods methods;  // First: a file points to it.
  const sqlite3_io_methods *usual;
  struct cairn_guard *guard;
};

struct cairn_guard {
  sqlite3_vfs vfs;  // First: SQLite gives it back to every function.
  sqlite3_vfs *usual;
  char *path;  // Absolute; its folders are resolved, its last part is no link.
  char name[48];
  int refusal;
  char *refused;
  int number;  // See index.h.
  char *shared;  // The path of `-shm`; NULL before it is needed.
  struct guarded_methods database, log;
};

static int refuse(struct cairn_guard *guard, int refusal, const char *path, int code) {
  guard->refusal = refusal;
  free(guard->refused);
  guard->refused = strdup(path);
  return code;
}

int cairn_guard_is_cut(struct cairn_guard *guard) { return guard != NULL && cairn_index_is_cut(guard->number); }

int cairn_guard_refusal(struct cairn_guard *guard, const char **path) {
  // This is permanent: the memory stays invalid.
  if (cairn_guard_is_cut(guard)) {
    *path = guard->shared ? guard->shared : "";
    return CAIRN_REFUSAL_CUT;
  }
  int refusal = guard ? guard->refusal : 0;
  *path = refusal && guard->refused ? guard->refused : "";
  if (guard) guard->refusal = 0;
  return refusal;
}

// Returns whether SQLite may touch the file: the database, or a companion that SQLite creates beside it.
static int is_own(struct cairn_guard *guard, const char *path) {
  if (guard->path == NULL) return 0;
  size_t length = strlen(guard->path);
  if (strncmp(path, guard->path, length) != 0) return 0;
  const char *rest = path + length;
  return *rest == 0 || strcmp(rest, "-journal") == 0 || strcmp(rest, "-wal") == 0;
}

// Returns whether the owner of a companion may write the database. If not, a forged companion could make Cairn write
// it.
static int could_write(const struct stat *database, const struct stat *companion) {
  if (companion->st_uid == 0 || companion->st_uid == geteuid() || companion->st_uid == database->st_uid) return 1;
  if (database->st_mode & S_IWOTH) return 1;
  return (database->st_mode & S_IWGRP) != 0 && companion->st_gid == database->st_gid;
}

// Returns the reason to refuse a path; 0 if there is none. SQLite itself reports folders and missing files.
static int refusal_of(struct cairn_guard *guard, const char *path, int is_companion) {
  struct stat there, database;
  if (lstat(path, &there) != 0) return 0;
  if (S_ISLNK(there.st_mode)) return CAIRN_REFUSAL_LINK;
  if (S_ISDIR(there.st_mode) && !is_companion) return 0;
  if (!S_ISREG(there.st_mode)) return CAIRN_REFUSAL_NOT_A_FILE;
  if (!is_companion) return 0;
  // A file without a name passes: SQLite is just deleting it.
  if (there.st_nlink > 1) return CAIRN_REFUSAL_HARD_LINK;
  if (lstat(guard->path, &database) == 0 && !could_write(&database, &there)) return CAIRN_REFUSAL_OWNER;
  return 0;
}

// MARK: Leases

// SQLite's call of open(2) on this thread, while a guarded connection opens a file.
static _Thread_local enum { UNGUARDED, GUARDED, LEASED } opening;
static int (*usual_open)(const char *, int, int);

// A regular file ignores O_NONBLOCK, except that open(2) fails with EWOULDBLOCK in place of waiting for a lease.
static int open_at_once(const char *path, int flags, int mode) {
  if (opening == UNGUARDED) return usual_open(path, flags, mode);
  // SQLite would next try to open the file without the right to write.
  if (opening == LEASED) {
    errno = EWOULDBLOCK;
    return -1;
  }
  int descriptor = usual_open(path, flags | O_NONBLOCK, mode);
  if (descriptor < 0 && errno == EWOULDBLOCK) opening = LEASED;
  return descriptor;
}

static void replace_open(void) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  if (vfs == NULL || vfs->iVersion < 3 || vfs->xGetSystemCall == NULL || vfs->xSetSystemCall == NULL) return;
  usual_open = (int (*)(const char *, int, int))vfs->xGetSystemCall(vfs, "open");
  if (usual_open != NULL) vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_at_once);
}

void cairn_guard_never_wait(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, replace_open);
}

// Returns whether a file had a lease since `opening` became GUARDED.
static int end_opening(void) {
  int was_leased = opening == LEASED;
  opening = UNGUARDED;
  return was_leased;
}

// MARK: Files

static struct guarded_methods *methods_of(sqlite3_file *file) { return (struct guarded_methods *)file->pMethods; }

static int guarded_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
  struct guarded_methods *own = methods_of(file);
  return cairn_guard_is_cut(own->guard) ? SQLITE_IOERR_READ : own->usual->xRead(file, bytes, count, offset);
}

// With an index that is partly lost, SQLite would write to wrong places.
static int guarded_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  struct guarded_methods *own = methods_of(file);
  return cairn_guard_is_cut(own->guard) ? SQLITE_IOERR_WRITE : own->usual->xWrite(file, bytes, count, offset);
}

static int guarded_truncate(sqlite3_file *file, sqlite3_int64 size) {
  struct guarded_methods *own = methods_of(file);
  return cairn_guard_is_cut(own->guard) ? SQLITE_IOERR_TRUNCATE : own->usual->xTruncate(file, size);
}

static int guarded_sync(sqlite3_file *file, int flags) {
  struct guarded_methods *own = methods_of(file);
  return cairn_guard_is_cut(own->guard) ? SQLITE_IOERR_FSYNC : own->usual->xSync(file, flags);
}

static int guarded_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory) {
  struct guarded_methods *own = methods_of(file);
  opening = GUARDED;
  int code = cairn_index_map(own->guard->number, own->usual, file, region, size, extend, memory);
  const char *shared = own->guard->shared ? own->guard->shared : "";
  if (end_opening()) return refuse(own->guard, CAIRN_REFUSAL_LEASE, shared, SQLITE_CANTOPEN);
  if (code == CAIRN_INDEX_TOO_LARGE) return refuse(own->guard, CAIRN_REFUSAL_INDEX, shared, SQLITE_IOERR_SHMMAP);
  return code;
}

static int guarded_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
  struct guarded_methods *own = methods_of(file);
  // Locks can still be released.
  if ((flags & SQLITE_SHM_LOCK) && cairn_guard_is_cut(own->guard)) return SQLITE_IOERR_SHMLOCK;
  return own->usual->xShmLock(file, offset, count, flags);
}

static int guarded_shm_unmap(sqlite3_file *file, int is_deleted) {
  struct guarded_methods *own = methods_of(file);
  return cairn_index_unmap(own->guard->number, own->usual, file, is_deleted);
}

static void guard_file(struct cairn_guard *guard, struct guarded_methods *own, sqlite3_file *file) {
  own->usual = file->pMethods;
  own->guard = guard;
  own->methods = *file->pMethods;
  own->methods.xRead = guarded_read;
  own->methods.xWrite = guarded_write;
  own->methods.xTruncate = guarded_truncate;
  own->methods.xSync = guarded_sync;
  if (own->methods.iVersion >= 2 && own->usual->xShmMap != NULL) {
    own->methods.xShmMap = guarded_shm_map;
    own->methods.xShmLock = guarded_shm_lock;
    own->methods.xShmUnmap = guarded_shm_unmap;
  }
  file->pMethods = &own->methods;
}

static int guarded_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *opened) {
  struct cairn_guard *guard = (struct cairn_guard *)vfs;
  file->pMethods = NULL;
  // A file without a name is temporary: SQLite creates it under a new name.
  if (name != NULL) {
    if (!is_own(guard, name)) return refuse(guard, CAIRN_REFUSAL_OTHER_FILE, name, SQLITE_CANTOPEN);
    int refusal = refusal_of(guard, name, (flags & SQLITE_OPEN_MAIN_DB) == 0);
    if (refusal) return refuse(guard, refusal, name, SQLITE_CANTOPEN);
    if (flags & SQLITE_OPEN_WAL) {
      // SQLite opens the shared memory beside the log by itself.
      char shared[PATH_MAX];
      snprintf(shared, sizeof shared, "%s-shm", guard->path);
      refusal = refusal_of(guard, shared, 1);
      if (refusal) return refuse(guard, refusal, shared, SQLITE_CANTOPEN);
      if (guard->shared == NULL) guard->shared = strdup(shared);
    }
  }
  opening = GUARDED;
  int code = guard->usual->xOpen(guard->usual, name, file, flags, opened);
  if (end_opening() && code != SQLITE_OK) return refuse(guard, CAIRN_REFUSAL_LEASE, name ? name : "", SQLITE_CANTOPEN);
  if (code != SQLITE_OK || file->pMethods == NULL || name == NULL) return code;
  if (flags & SQLITE_OPEN_MAIN_DB) guard_file(guard, &guard->database, file);
  if (flags & SQLITE_OPEN_WAL) guard_file(guard, &guard->log, file);
  return code;
}

static int guarded_delete(sqlite3_vfs *vfs, const char *name, int is_folder_synced) {
  struct cairn_guard *guard = (struct cairn_guard *)vfs;
  // Never the database itself.
  if (!is_own(guard, name) || strcmp(name, guard->path) == 0)
    return refuse(guard, CAIRN_REFUSAL_OTHER_FILE, name, SQLITE_IOERR_DELETE);
  return guard->usual->xDelete(guard->usual, name, is_folder_synced);
}

static int guarded_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
  struct cairn_guard *guard = (struct cairn_guard *)vfs;
  // This is an error. If the file counted as missing, SQLite would delete the journal that names it.
  if (!is_own(guard, name)) return refuse(guard, CAIRN_REFUSAL_OTHER_FILE, name, SQLITE_IOERR_ACCESS);
  return guard->usual->xAccess(guard->usual, name, flags, result);
}

// Resolves the links in the folders of a path, which the administrator made. The last part must not be a link.
static int guarded_full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *out) {
  struct cairn_guard *guard = (struct cairn_guard *)vfs;
  if (name == NULL || *name == 0) return guard->usual->xFullPathname(guard->usual, name, size, out);
  char folder[PATH_MAX], full[PATH_MAX];
  const char *slash = strrchr(name, '/');
  size_t length = slash ? (size_t)(slash - name) : 0;
  if (length >= sizeof folder) return SQLITE_CANTOPEN;
  memcpy(folder, name, length);
  folder[length] = 0;
  if (realpath(slash == NULL ? "." : length == 0 ? "/" : folder, full) == NULL) return SQLITE_CANTOPEN;
  const char *last = slash ? slash + 1 : name;
  length = strlen(full);
  if (snprintf(full + length, sizeof full - length, "%s%s", length == 1 ? "" : "/", last) >= (int)(sizeof full - length))
    return SQLITE_CANTOPEN;
  struct stat there;
  if (lstat(full, &there) == 0 && S_ISLNK(there.st_mode))
    return refuse(guard, CAIRN_REFUSAL_LINK, full, SQLITE_CANTOPEN);
  int code = guard->usual->xFullPathname(guard->usual, full, size, out);
  // The first path is that of the database; a later one would be attached.
  if (code == SQLITE_OK && guard->path == NULL) guard->path = strdup(out);
  return code;
}

int cairn_guard_open(const char *path, int flags, sqlite3 **db, struct cairn_guard **made) {
  *db = NULL;
  *made = NULL;
  int code = sqlite3_initialize();
  if (code != SQLITE_OK) return code;
  struct cairn_guard *guard = calloc(1, sizeof *guard);
  if (guard == NULL) return SQLITE_NOMEM;
  guard->number = cairn_index_take();
  if (guard->number < 0) {
    free(guard);
    return SQLITE_NOMEM;
  }
  guard->usual = sqlite3_vfs_find(NULL);
  if (guard->usual == NULL) {
    cairn_index_give(guard->number);
    free(guard);
    return SQLITE_ERROR;
  }
  guard->vfs = *guard->usual;
  guard->vfs.pNext = NULL;
  snprintf(guard->name, sizeof guard->name, "cairn-guard-%p", (void *)guard);
  guard->vfs.zName = guard->name;
  guard->vfs.xOpen = guarded_open;
  guard->vfs.xDelete = guarded_delete;
  guard->vfs.xAccess = guarded_access;
  guard->vfs.xFullPathname = guarded_full_pathname;
  *made = guard;
  code = sqlite3_vfs_register(&guard->vfs, 0);
  if (code != SQLITE_OK) return code;
  return sqlite3_open_v2(path, db, flags | SQLITE_OPEN_NOFOLLOW, guard->name);
}

void cairn_guard_free(struct cairn_guard *guard) {
  if (guard == NULL) return;
  sqlite3_vfs_unregister(&guard->vfs);
  cairn_index_give(guard->number);
  free(guard->shared);
  free(guard->path);
  free(guard->refused);
  free(guard);
}

// The wal-index of a database, through the file of its own connection, so that SQLite's own table of locks has ours.
#define _GNU_SOURCE
#include "CShims.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

// Source: sqlite.org/walformat.html, the WAL-index file format.
enum { HEADER_BYTES = 48, COUNTS_WORD = 24, SLOTS_LOCK = 3, LOCKS_BYTE = 120, REGION_BYTES = 32768 };

int cairn_log_open(sqlite3 *db, struct cairn_log *log) {
  sqlite3_file *file = NULL;
  int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code != SQLITE_OK) return code;
  if (file == NULL || file->pMethods == NULL || file->pMethods->iVersion < 2) return SQLITE_CANTOPEN;
  if (file->pMethods->xShmMap == NULL || file->pMethods->xShmLock == NULL) return SQLITE_CANTOPEN;
  void volatile *memory = NULL;
  code = file->pMethods->xShmMap(file, 0, REGION_BYTES, 0, &memory);
  if (code != SQLITE_OK) return code;
  if (memory == NULL) return SQLITE_CANTOPEN;
  log->file = file;
  log->memory = memory;
  return SQLITE_OK;
}

int cairn_log_lock(const struct cairn_log *log, int slot, int lock) {
  int flags = SQLITE_SHM_SHARED | (lock ? SQLITE_SHM_LOCK : SQLITE_SHM_UNLOCK);
  int code = log->file->pMethods->xShmLock(log->file, SLOTS_LOCK + slot, 1, flags);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return code;
}

int cairn_log_look(const struct cairn_log *log, struct cairn_log_look *look) {
  const volatile uint32_t *words = log->memory;
  uint32_t copy[HEADER_BYTES / 4];
  for (int attempt = 0; attempt < 1000; attempt++) {
    for (int i = 0; i < HEADER_BYTES / 4; i++) look->header[i] = __atomic_load_n(words + i, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int i = 0; i < HEADER_BYTES / 4; i++)
      copy[i] = __atomic_load_n(words + HEADER_BYTES / 4 + i, __ATOMIC_RELAXED);
    if (memcmp(look->header, copy, HEADER_BYTES) != 0) continue;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    look->backfilled = __atomic_load_n(words + COUNTS_WORD, __ATOMIC_SEQ_CST);
    for (int i = 0; i < CAIRN_LOG_SLOTS; i++)
      look->marks[i] = __atomic_load_n(words + COUNTS_WORD + 1 + i, __ATOMIC_SEQ_CST);
    return 1;
  }
  return 0;
}

int cairn_log_is_locked(int descriptor, int lock) {
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKS_BYTE + lock, .l_len = 1, .l_pid = 0};
  if (fcntl(descriptor, F_OFD_GETLK, &range) != 0) return -errno;
  return range.l_type != F_UNLCK;
}

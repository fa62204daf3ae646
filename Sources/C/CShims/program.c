// Facts that the embedded API needs and SQLite does not return: the time that a statement got, and new journal rows.
#include "CShims.h"
#include <pthread.h>
#include <string.h>

// For the statement that this thread steps: whether it is watched, and the time that it got (0: it did not ask).
static __thread int is_watched;
static __thread sqlite3_int64 told;

static sqlite3_vfs *usual;
static sqlite3_vfs watching;
static int is_registered;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

static int current_time(sqlite3_vfs *vfs, sqlite3_int64 *now) {
  (void)vfs;
  if (is_watched && told != 0) {
    *now = told;
    return SQLITE_OK;
  }
  int code = usual->xCurrentTimeInt64(usual, now);
  if (code == SQLITE_OK && is_watched) told = *now;
  return code;
}

const char *cairn_watching_vfs(void) {
  pthread_mutex_lock(&registering);
  if (!is_registered) {
    usual = sqlite3_vfs_find(NULL);
    if (usual != NULL && usual->iVersion >= 2 && usual->xCurrentTimeInt64 != NULL) {
      // A copy with another clock. Its other functions use only fields that are copied.
      watching = *usual;
      watching.pNext = NULL;
      watching.zName = "cairn-watching";
      watching.xCurrentTimeInt64 = current_time;
      is_registered = sqlite3_vfs_register(&watching, 0) == SQLITE_OK;
    }
  }
  pthread_mutex_unlock(&registering);
  return is_registered ? watching.zName : NULL;
}

int cairn_step_watched(sqlite3_stmt *statement, sqlite3_int64 *now) {
  int was_watched = is_watched;
  sqlite3_int64 was_told = told;
  is_watched = 1;
  told = 0;
  int code = sqlite3_step(statement);
  *now = told;
  is_watched = was_watched;
  told = was_told;
  return code;
}

static void on_update(void *context, int operation, const char *database, const char *table, sqlite3_int64 rowid) {
  struct cairn_journal_watch *watch = context;
  (void)database;
  if (operation != SQLITE_INSERT || strcmp(table, "cairn_journal") != 0) return;
  if (watch->first == 0) watch->first = rowid;
  watch->last = rowid;
}

void cairn_watch_journal(sqlite3 *db, struct cairn_journal_watch *watch) { sqlite3_update_hook(db, on_update, watch); }

// Reports rows while statements write them, if the library was built with SQLITE_ENABLE_PREUPDATE_HOOK, as Debian's is.
#include "CShims.h"
#include <string.h>

// SQLite declares these functions only under that option, and a library without the option lacks them.
__attribute__((weak)) void *sqlite3_preupdate_hook(
    sqlite3 *, void (*)(void *, sqlite3 *, int, char const *, char const *, sqlite3_int64, sqlite3_int64), void *);
__attribute__((weak)) int sqlite3_preupdate_new(sqlite3 *, int, sqlite3_value **);
__attribute__((weak)) int sqlite3_preupdate_depth(sqlite3 *);

int cairn_tells_written(void) {
  return sqlite3_preupdate_hook && sqlite3_preupdate_new && sqlite3_preupdate_depth &&
         sqlite3_compileoption_used("ENABLE_PREUPDATE_HOOK");
}

static void on_write(void *context, sqlite3 *db, int operation, char const *database, char const *table,
                     sqlite3_int64 old_rowid, sqlite3_int64 new_rowid) {
  struct cairn_written_watch *watch = context;
  (void)old_rowid;
  (void)new_rowid;
  if (operation == SQLITE_DELETE || strcmp(database, "main") != 0) return;
  if (sqlite3_stricmp(table, watch->table) != 0 || sqlite3_preupdate_depth(db) != 0) return;
  watch->row(watch->context);
}

void cairn_watch_written(sqlite3 *db, struct cairn_written_watch *watch) {
  sqlite3_preupdate_hook(db, watch ? on_write : NULL, watch);
}

sqlite3_value *cairn_written_value(sqlite3 *db, int column) {
  sqlite3_value *value = NULL;
  return sqlite3_preupdate_new(db, column, &value) == SQLITE_OK ? value : NULL;
}

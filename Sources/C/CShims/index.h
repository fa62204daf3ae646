// The shared memory of databases in WAL mode (`-shm`, the index of the log) as guarded connections map it.
#pragma once
#include <sqlite3.h>

// Returns a number for one connection; -1 if there are too many.
int cairn_index_take(void);
// Frees the number of a closed connection.
void cairn_index_give(int number);

// Returns whether memory of the connection was truncated, so that everything read since then is invalid.
int cairn_index_is_cut(int number);

// The result of cairn_index_map for more regions than a file, or all files together, may have.
enum { CAIRN_INDEX_TOO_LARGE = -1 };

// Call xShmMap and xShmUnmap of `usual`, and record which memory the connection has mapped.
int cairn_index_map(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int region, int size, int extend,
                    void volatile **memory);
int cairn_index_unmap(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int is_deleted);

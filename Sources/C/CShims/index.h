// The shared memory of databases in WAL mode (`-shm`, the index of the log) as guarded connections map it.
#pragma once
#include <sqlite3.h>

// Returns a number for one connection; -1 if there are too many.
int cairn_index_take(void);
// Gives the number of a closed connection back.
void cairn_index_give(int number);

// Whether memory of the connection was cut off, so that what it reads counts no more.
int cairn_index_is_cut(int number);

// As xShmMap and xShmUnmap of `usual`. They record which memory the connection has.
int cairn_index_map(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int region, int size, int extend,
                    void volatile **memory);
int cairn_index_unmap(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int is_deleted);

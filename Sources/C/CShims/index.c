// SQLite maps the file `-shm` into memory, whatever its settings. Each user who may write to the file can truncate it.
// Then the kernel answers an access with SIGBUS, which ends the process. The handler here replaces the missing page by
// an empty one, and marks the connections that have mapped it. These connections then fail, and the process continues.
#define _GNU_SOURCE
#include "index.h"
#include "CShims.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CONNECTIONS = 16384, REGIONS = 65536 };

// The handler reads these, and may interrupt any thread. So they are used without a lock.
struct region {
  _Atomic uintptr_t start;  // 0: free. Written last, and erased first.
  _Atomic size_t length;
  atomic_int number;  // The number of the connection.
  atomic_int is_cut;
};

static struct region regions[REGIONS];
static atomic_int regions_used;  // No region from here on was ever taken.
static atomic_int is_cut[CONNECTIONS];
static char is_taken[CONNECTIONS];
// SQLite gives one mapping to all connections of the process to a file. So nothing is mapped between the moment when
// the records of the last connection go and the moment when SQLite unmaps the memory.
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

int cairn_index_take(void) {
  int found = -1;
  pthread_mutex_lock(&mapping);
  for (int number = 0; number < CONNECTIONS && found < 0; number++) {
    if (is_taken[number]) continue;
    is_taken[number] = 1;
    atomic_store(&is_cut[number], 0);
    found = number;
  }
  pthread_mutex_unlock(&mapping);
  return found;
}

static void forget(int number) {
  int used = atomic_load(&regions_used);
  for (int index = 0; index < used; index++)
    if (atomic_load(&regions[index].start) != 0 && atomic_load(&regions[index].number) == number)
      atomic_store(&regions[index].start, 0);
}

void cairn_index_give(int number) {
  if (number < 0) return;
  pthread_mutex_lock(&mapping);
  forget(number);
  is_taken[number] = 0;
  pthread_mutex_unlock(&mapping);
}

int cairn_index_is_cut(int number) { return number >= 0 && atomic_load_explicit(&is_cut[number], memory_order_relaxed); }

// Stores which memory a connection has mapped. Returns 0 if the table is full.
static int record(int number, uintptr_t start, size_t length) {
  int used = atomic_load(&regions_used), open = -1, was_cut = 0;
  for (int index = 0; index < used; index++) {
    uintptr_t there = atomic_load(&regions[index].start);
    if (there == 0 && open < 0) open = index;
    if (there != start) continue;
    if (atomic_load(&regions[index].number) == number) return 1;
    was_cut |= atomic_load(&regions[index].is_cut);
  }
  if (open < 0) {
    if (used == REGIONS) return 0;
    open = used;
    atomic_store(&regions_used, used + 1);
  }
  struct region *region = &regions[open];
  atomic_store(&region->length, length);
  atomic_store(&region->number, number);
  atomic_store(&region->is_cut, was_cut);
  atomic_store(&region->start, start);
  // Another connection has the same memory, in which a missing page was replaced.
  if (was_cut) atomic_store(&is_cut[number], 1);
  return 1;
}

int cairn_index_map(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int region, int size, int extend,
                    void volatile **memory) {
  pthread_mutex_lock(&mapping);
  int code = usual->xShmMap(file, region, size, extend, memory);
  if (*memory != NULL && !record(number, (uintptr_t)*memory, (size_t)size)) {
    *memory = NULL;
    code = SQLITE_IOERR_SHMMAP;
  }
  pthread_mutex_unlock(&mapping);
  return cairn_index_is_cut(number) ? SQLITE_IOERR_SHMMAP : code;
}

int cairn_index_unmap(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int is_deleted) {
  pthread_mutex_lock(&mapping);
  forget(number);
  int code = usual->xShmUnmap(file, is_deleted);
  pthread_mutex_unlock(&mapping);
  return code;
}

// MARK: The handler

static struct sigaction before;
static uintptr_t page_size;

static void memory_is_gone(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  int error = errno, is_ours = 0;
  uintptr_t address = (uintptr_t)info->si_addr;
  if (info->si_code == BUS_ADRERR) {
    int used = atomic_load(&regions_used);
    for (int index = 0; index < used; index++) {
      struct region *region = &regions[index];
      uintptr_t start = atomic_load(&region->start);
      if (start == 0 || address < start || address - start >= atomic_load(&region->length)) continue;
      atomic_store(&region->is_cut, 1);
      atomic_store(&is_cut[atomic_load(&region->number)], 1);
      is_ours = 1;
    }
  }
  if (is_ours) {
    // This system call needs no lock. SQLite's munmap(2) unmaps this page too.
    void *page = mmap((void *)(address & ~(page_size - 1)), page_size, PROT_READ | PROT_WRITE,
                      MAP_FIXED | MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    errno = error;
    if (page != MAP_FAILED) return;
  }
  // For any other cause, the access is tried again, and the action applies that was set before.
  sigaction(SIGBUS, &before, NULL);
  if (info->si_code <= 0) raise(SIGBUS);
}

static void install(void) {
  page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction action = {.sa_sigaction = memory_is_gone, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

void cairn_index_survive(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}

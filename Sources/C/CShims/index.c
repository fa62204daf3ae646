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

enum {
  CONNECTIONS = 16384,
  // The regions of all files that the table has room for.
  REGIONS = 65536,
  // A region has some 4,096 frames of the log: this is a log of 68 GB with pages of 4 KiB. A forged `-shm` or a sparse
  // `-wal` costs its owner nothing, so their sizes are no measure.
  FILE_REGIONS = 4096,
  // Every file gets this number of regions, whatever the other files use.
  OWN_REGIONS = 16,
  // All files together get this number of further regions. The kernel maps 65,530 at most (vm.max_map_count), and the
  // process fails at its next allocation if they are used up.
  SHARED_REGIONS = 32768,
};

// The handler reads these, and may interrupt any thread. So they are used without a lock.
struct region {
  _Atomic uintptr_t start;  // 0: free. Written last, and erased first.
  _Atomic size_t length;
  atomic_int file;  // The index of the file.
  // The handler does not read these.
  int number;
  int next;  // The next region of the file, or the next free one; -1: none.
};

// The memory of one file. SQLite gives it to all connections of the process to that file.
struct file {
  uintptr_t first;  // The address of region 0, which differs between files; 0: free.
  int connections;
  int mapped;   // SQLite has mapped the regions below this number.
  int regions;  // The list of those that connections asked for; -1: none.
  atomic_int is_cut;
};

static struct region regions[REGIONS];
static atomic_int regions_used;  // No region from here on was ever taken.
static int regions_free = -1;    // The list of the free regions before that one.
static int regions_shared;       // How many regions above OWN_REGIONS all files have.
static struct file files[CONNECTIONS];
static int files_used;                      // No file from here on was ever taken.
static atomic_int file_after[CONNECTIONS];  // The index of the connection's file, plus 1; 0: none.
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

static int above_own(int count) { return count > OWN_REGIONS ? count - OWN_REGIONS : 0; }

static void forget(int number) {
  int after = atomic_load(&file_after[number]);
  if (after == 0) return;
  atomic_store(&file_after[number], 0);
  struct file *file = &files[after - 1];
  if (--file->connections > 0) return;
  for (int index = file->regions, next; index >= 0; index = next) {
    atomic_store(&regions[index].start, 0);
    next = regions[index].next;
    regions[index].next = regions_free;
    regions_free = index;
  }
  regions_shared -= above_own(file->mapped);
  file->first = 0;
}

void cairn_index_give(int number) {
  if (number < 0) return;
  pthread_mutex_lock(&mapping);
  forget(number);
  is_taken[number] = 0;
  pthread_mutex_unlock(&mapping);
}

int cairn_index_is_cut(int number) { return number >= 0 && atomic_load_explicit(&is_cut[number], memory_order_relaxed); }

// Counts a connection to the file whose region 0 is at `first`. There are as many files as connections: one is free.
static struct file *join(int number, uintptr_t first) {
  int found = -1;
  for (int index = 0; index < files_used; index++) {
    if (files[index].first == 0 && found < 0) found = index;
    if (files[index].first != first) continue;
    found = index;
    break;
  }
  if (found < 0) found = files_used++;
  struct file *file = &files[found];
  if (file->first == 0) *file = (struct file){.first = first, .regions = -1};
  file->connections++;
  atomic_store(&file_after[number], found + 1);
  // Another connection has the same memory, in which a missing page was replaced.
  if (atomic_load(&file->is_cut)) atomic_store(&is_cut[number], 1);
  return file;
}

// Stores that a connection has mapped a region of its file. Returns 0 if the table is full.
static int record(struct file *file, int number, uintptr_t start, size_t length) {
  for (int index = file->regions; index >= 0; index = regions[index].next)
    if (regions[index].number == number) return 1;
  int open = regions_free;
  if (open >= 0) {
    regions_free = regions[open].next;
  } else {
    open = atomic_load(&regions_used);
    if (open == REGIONS) return 0;
    atomic_store(&regions_used, open + 1);
  }
  struct region *region = &regions[open];
  atomic_store(&region->length, length);
  atomic_store(&region->file, (int)(file - files));
  region->number = number;
  region->next = file->regions;
  file->regions = open;
  atomic_store(&region->start, start);
  return 1;
}

static int map(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int region, int size, int extend,
               void volatile **memory) {
  *memory = NULL;
  int after = atomic_load(&file_after[number]);
  struct file *own = after > 0 ? &files[after - 1] : NULL;
  int more = above_own(region + 1) - (own ? above_own(own->mapped) : 0);
  if (region >= FILE_REGIONS || (more > 0 && more > SHARED_REGIONS - regions_shared)) return CAIRN_INDEX_TOO_LARGE;
  int code = usual->xShmMap(file, region, size, extend, memory);
  if (*memory == NULL) return code;
  if (own == NULL) {
    // This is mapped already: SQLite maps all regions up to the one that it is asked for.
    void volatile *first = NULL;
    if (region == 0) first = *memory;
    else usual->xShmMap(file, 0, size, 0, &first);
    if (first != NULL) own = join(number, (uintptr_t)first);
  }
  if (own != NULL && region >= own->mapped) {
    regions_shared += above_own(region + 1) - above_own(own->mapped);
    own->mapped = region + 1;
  }
  if (own != NULL && record(own, region, (uintptr_t)*memory, (size_t)size)) return code;
  *memory = NULL;
  return CAIRN_INDEX_TOO_LARGE;
}

int cairn_index_map(int number, const sqlite3_io_methods *usual, sqlite3_file *file, int region, int size, int extend,
                    void volatile **memory) {
  pthread_mutex_lock(&mapping);
  int code = map(number, usual, file, region, size, extend, memory);
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
      // This order misses no connection that joins the file meanwhile.
      int file = atomic_load(&region->file);
      atomic_store(&files[file].is_cut, 1);
      for (int number = 0; number < CONNECTIONS; number++)
        if (atomic_load(&file_after[number]) == file + 1) atomic_store(&is_cut[number], 1);
      is_ours = 1;
      break;
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

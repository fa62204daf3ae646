// LD_PRELOAD recorder: writes every file mutation and sync below POWERCUT_ROOT,
// by every process that has it loaded, into POWERCUT_LOG in one true order.
//
//   gcc -shared -fPIC -O2 -Wall -o librecorder.so recorder.c -ldl
//
// How the order is kept true: one mutex shared by all processes is held around
// {real call + append of its record}. The record is built in shared memory
// before the real call. If the holder is killed in between, the next process
// to take the (robust) mutex looks at the file: how far did the call get?
// It then appends the record that the dead process owed. The log therefore
// always matches the files, whatever is killed when.
//
// File identity is the inode number. A create record starts a new file for the
// reader, and an inode cannot be reused while anything still refers to it. So
// no fd table is needed: an fd's identity is asked from the kernel on each call.
// That is also why dup, dup2 and fcntl(F_DUPFD) need no interception.
//
// Real calls are raw system calls: they cannot recurse into this library.

#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "64-bit systems only");

// Keep in step with replay.py.
enum { OP_CREATE = 1, OP_WRITE, OP_SIZE, OP_ALLOC, OP_SYNC, OP_UNLINK, OP_RENAME,
       OP_MKDIR, OP_RMDIR, OP_LINK, OP_NOTE, OP_UNSUPPORTED };
enum { ALLOC_ZERO = 1, ALLOC_KEEP_SIZE = 2 };

struct head {               // little endian; path, path2 and data follow
    uint32_t length;        // whole record, this field included
    uint8_t  op;
    uint64_t id;            // inode number
    uint64_t offset;        // write/alloc: offset; size: new size; create/mkdir: mode
    uint64_t ns;
    uint32_t pid;
    uint16_t path_len, path2_len;
} __attribute__((packed));

struct alloc { uint64_t length; uint32_t flags; } __attribute__((packed));

#define MAX_DATA (16u << 20)    // a larger write is answered with a short count
#define MAGIC 0x50435554u

struct shared {
    uint32_t magic;
    volatile uint32_t pending;  // `record` is complete but not yet in the log
    volatile uint64_t committed;// length of the log that holds whole records
    pthread_mutex_t lock;
    char record[sizeof(struct head) + 2 * PATH_MAX + MAX_DATA];
};

static struct shared *shared;
static char root[PATH_MAX];
static size_t root_len;
static int log_fd = -1, real_sync, active;

static struct head *head(void) { return (struct head *)shared->record; }
static char *record_path(void) { return shared->record + sizeof(struct head); }
static char *record_path2(void) { return record_path() + head()->path_len; }
static char *record_data(void) { return record_path2() + head()->path2_len; }

static void die(const char *what) {
    dprintf(2, "powercut recorder: %s: %s\n", what, strerror(errno));
    abort();    // never let a test go on with an incomplete log
}

// ---- paths ---------------------------------------------------------------

// Turns a real path into one relative to ROOT; 0 when it is outside or ignored.
static int below_root(const char *path, char *rel) {
    if (strncmp(path, root, root_len) != 0) return 0;
    if (path[root_len] == 0) { strcpy(rel, "."); return 1; }
    if (path[root_len] != '/') return 0;
    path += root_len + 1;
    size_t n = strlen(path);
    if (n >= 4 && strcmp(path + n - 4, "-shm") == 0) return 0;
    memcpy(rel, path, n + 1);
    return 1;
}

struct target { int fd; struct stat st; char rel[PATH_MAX]; };

// The file of an open fd. A deleted file has an empty path: its id is enough.
static int fd_target(int fd, struct target *t) {
    int saved = errno, ok = 0;
    char link[64], path[PATH_MAX];
    if (active && fd >= 0 && fstat(fd, &t->st) == 0 &&
        (S_ISREG(t->st.st_mode) || S_ISDIR(t->st.st_mode))) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 0) {
            path[n] = 0;
            const size_t gone = sizeof " (deleted)" - 1;
            int deleted = t->st.st_nlink == 0 && (size_t)n > gone;
            if (deleted) path[n - gone] = 0;
            ok = below_root(path, t->rel);
            if (deleted) t->rel[0] = 0;
        }
    }
    t->fd = fd;
    errno = saved;
    return ok;
}

// Real path of a name that may not exist yet; `follow` resolves a final symlink.
static int resolve(int dirfd, const char *path, int follow, char *rel) {
    int saved = errno, ok = 0;
    char full[2 * PATH_MAX + 2], dir[PATH_MAX], link[64];
    if (!active || !path || !*path || strlen(path) >= PATH_MAX) return 0;
    if (path[0] == '/' || dirfd == AT_FDCWD) {
        strcpy(full, path);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, dir, sizeof dir - 1);
        if (n <= 0) { errno = saved; return 0; }
        dir[n] = 0;
        sprintf(full, "%s/%s", dir, path);
    }
    if (follow && realpath(full, dir)) {
        ok = below_root(dir, rel);
    } else {
        size_t n = strlen(full);
        while (n > 1 && full[n - 1] == '/') full[--n] = 0;
        char *slash = strrchr(full, '/'), *name = slash ? slash + 1 : full;
        char parent[PATH_MAX];
        if (!slash) strcpy(parent, ".");
        else { size_t m = slash == full ? 1 : slash - full;
               if (m >= PATH_MAX) { errno = saved; return 0; }
               memcpy(parent, full, m); parent[m] = 0; }
        if (realpath(parent, dir) && strlen(dir) + strlen(name) + 2 < PATH_MAX) {
            if (strcmp(dir, "/") != 0) strcat(dir, "/");
            strcat(dir, name);
            ok = below_root(dir, rel);
        }
    }
    errno = saved;
    return ok;
}

static int rel_lstat(const char *rel, struct stat *st) {
    char full[2 * PATH_MAX + 2];
    snprintf(full, sizeof full, "%s/%s", root, rel);
    return lstat(full, st);
}

// ---- the log -------------------------------------------------------------

static void append(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    head()->ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    size_t len = head()->length;
    if (syscall(SYS_write, log_fd, shared->record, len) != (long)len) die("log append");
    shared->committed += len;
    __atomic_store_n(&shared->pending, 0, __ATOMIC_SEQ_CST);
}

// Starts a record in shared memory and returns where its data goes. The caller
// fills that in, calls announce(), makes the real call, then finish().
static char *begin(int op, uint64_t id, uint64_t offset, const char *path,
                   const char *path2, size_t data_len) {
    struct head *h = head();
    h->op = op; h->id = id; h->offset = offset; h->pid = getpid();
    h->path_len = strlen(path);
    h->path2_len = path2 ? strlen(path2) : 0;
    memcpy(record_path(), path, h->path_len);
    if (path2) memcpy(record_path2(), path2, h->path2_len);
    h->length = record_data() - shared->record + data_len;
    return record_data();
}
static void announce(void) { __atomic_store_n(&shared->pending, 1, __ATOMIC_SEQ_CST); }
static void finish(int happened) {
    int saved = errno;
    if (happened) append();
    else __atomic_store_n(&shared->pending, 0, __ATOMIC_SEQ_CST);
    errno = saved;
}
static void simple(int op, uint64_t id, const char *path) {
    begin(op, id, 0, path, NULL, 0);
    announce();
    finish(1);
}

// Length of the start of the file's range that equals `data` (NULL: zeros).
// The fd is left open on purpose: closing it would drop the POSIX locks this
// process may hold on the same file. It happens once per killed process.
static size_t matching(const char *rel, uint64_t id, uint64_t off, const char *data, size_t len) {
    char full[2 * PATH_MAX + 2], buf[65536];
    struct stat st;
    size_t done = 0;
    snprintf(full, sizeof full, "%s/%s", root, rel);
    int fd = syscall(SYS_openat, AT_FDCWD, full, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_ino != id) return 0;
    while (done < len) {
        size_t want = len - done < sizeof buf ? len - done : sizeof buf;
        ssize_t n = pread(fd, buf, want, off + done);
        if (n <= 0) return done;
        for (ssize_t i = 0; i < n; i++, done++)
            if (buf[i] != (data ? data[done] : 0)) return done;
    }
    return done;
}

// Did the call announced by a killed process take place? Exact, because no other
// process could change anything while the dead process held the lock.
static int pending_happened(void) {
    struct head *h = head();
    struct stat st;
    char path[PATH_MAX], path2[PATH_MAX];
    memcpy(path, record_path(), h->path_len); path[h->path_len] = 0;
    memcpy(path2, record_path2(), h->path2_len); path2[h->path2_len] = 0;
    size_t fixed = record_data() - shared->record;
    switch (h->op) {
    case OP_CREATE: case OP_MKDIR:      // announced only when the name was free
        if (rel_lstat(path, &st) != 0) return 0;
        h->id = st.st_ino; h->offset = st.st_mode & 07777;
        return 1;
    case OP_WRITE: {                    // may have been cut short by the kill
        size_t n = matching(path, h->id, h->offset, record_data(), h->length - fixed);
        h->length = fixed + n;
        return n > 0;
    }
    case OP_SIZE:
        return rel_lstat(path, &st) == 0 && st.st_ino == h->id && (uint64_t)st.st_size == h->offset;
    case OP_ALLOC: {
        struct alloc a;
        memcpy(&a, record_data(), sizeof a);
        if (rel_lstat(path, &st) != 0 || st.st_ino != h->id) return 0;
        if (!(a.flags & ALLOC_KEEP_SIZE) && (uint64_t)st.st_size < h->offset + a.length) return 0;
        if (!(a.flags & ALLOC_ZERO)) return 1;
        uint64_t end = h->offset + a.length;
        if (end > (uint64_t)st.st_size) end = st.st_size;
        return end <= h->offset || matching(path, h->id, h->offset, NULL, end - h->offset) == end - h->offset;
    }
    case OP_UNLINK: case OP_RMDIR:
        return rel_lstat(path, &st) != 0;
    case OP_RENAME:
        return rel_lstat(path, &st) != 0 && rel_lstat(path2, &st) == 0 && st.st_ino == h->id;
    case OP_LINK:
        return rel_lstat(path2, &st) == 0 && st.st_ino == h->id;
    case OP_UNSUPPORTED:
        return 1;
    }
    return 0;   // a sync or a note that never returned to its caller proves nothing
}

// Signals are held off so that a handler that writes cannot deadlock on us.
static void lock(sigset_t *mask) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, mask);
    int rc = pthread_mutex_lock(&shared->lock);
    if (rc == EOWNERDEAD) {
        // The order makes this safe to be killed in as well: drop any half
        // appended record, then settle what is still pending.
        if (ftruncate64(log_fd, shared->committed) != 0) die("log repair");
        if (shared->pending) finish(pending_happened());
        pthread_mutex_consistent(&shared->lock);
    } else if (rc != 0) {
        errno = rc;
        die("lock");
    }
}
static void unlock(sigset_t *mask) {
    int saved = errno;
    pthread_mutex_unlock(&shared->lock);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    errno = saved;
}

static void unsupported(const char *what, const char *rel) {
    char text[PATH_MAX];
    sigset_t mask;
    snprintf(text, sizeof text, "%s: %.3000s", what, rel);
    lock(&mask);
    simple(OP_UNSUPPORTED, 0, text);
    unlock(&mask);
}

__attribute__((constructor)) static void start(void) {
    const char *dir = getenv("POWERCUT_ROOT"), *log = getenv("POWERCUT_LOG");
    char path[PATH_MAX], rel[PATH_MAX];
    struct stat st;
    if (!dir || !log) return;
    if (!realpath(dir, root)) die("POWERCUT_ROOT");
    root_len = strlen(root);
    const char *sync = getenv("POWERCUT_REAL_SYNC");
    real_sync = sync && strcmp(sync, "1") == 0;

    int fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || !realpath(log, path)) die("POWERCUT_LOG");
    if (below_root(path, rel)) { errno = EINVAL; die("POWERCUT_LOG is inside POWERCUT_ROOT"); }
    // A high number keeps out of the way of programs that expect low fds.
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    if (log_fd < 0) log_fd = fd; else syscall(SYS_close, fd);

    snprintf(path, sizeof path, "%.4000s.state", log);
    fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) die(path);
    flock(fd, LOCK_EX);     // one process sets up the shared state
    if (ftruncate64(fd, sizeof *shared) != 0) die(path);
    shared = (void *)syscall(SYS_mmap, NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) die(path);
    // A state that claims more log than there is belongs to a deleted log.
    if (fstat(log_fd, &st) != 0) die("log");
    if (shared->magic != MAGIC || shared->committed > (uint64_t)st.st_size) {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&shared->lock, &a);
        shared->pending = 0;
        shared->committed = st.st_size;
        shared->magic = MAGIC;
    }
    flock(fd, LOCK_UN);     // explicit: the mapping keeps the open file, and its flock, alive
    syscall(SYS_close, fd);
    active = 1;
}

// ---- open and create -----------------------------------------------------

// Opening any name that starts with powercut-note- drops a marker in the order.
static int is_note(const char *path) {
    static const char prefix[] = "powercut-note-";
    if (!active || !path) return 0;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || strlen(name) >= PATH_MAX) return 0;
    sigset_t mask;
    lock(&mask);
    simple(OP_NOTE, 0, name + sizeof prefix - 1);
    unlock(&mask);
    errno = ENOENT;
    return 1;
}

static int do_open(int dirfd, const char *path, int flags, mode_t mode) {
    char rel[PATH_MAX];
    struct stat st;
    sigset_t mask;
    int fd;
    if (is_note(path)) return -1;
    // An open that neither creates nor truncates changes nothing.
    if (!active || !(flags & (O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))) ||
        !resolve(dirfd, path, !(flags & O_NOFOLLOW), rel))
        return syscall(SYS_openat, dirfd, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) { errno = EOPNOTSUPP; return -1; }

    lock(&mask);
    int exists = rel_lstat(rel, &st) == 0;
    if (!exists && (flags & O_CREAT)) {
        begin(OP_CREATE, 0, 0, rel, NULL, 0);
        announce();
        fd = syscall(SYS_openat, dirfd, path, flags, mode);
        if (fd >= 0 && fstat(fd, &st) == 0) {
            head()->id = st.st_ino;
            head()->offset = st.st_mode & 07777;
        }
        finish(fd >= 0);
    } else if (exists && S_ISREG(st.st_mode) && (flags & O_TRUNC) && st.st_size > 0) {
        begin(OP_SIZE, st.st_ino, 0, rel, NULL, 0);
        announce();
        fd = syscall(SYS_openat, dirfd, path, flags, mode);
        finish(fd >= 0);
    } else {
        unlock(&mask);  // may be a FIFO: never block with the lock held
        return syscall(SYS_openat, dirfd, path, flags, mode);
    }
    unlock(&mask);
    return fd;
}

static mode_t mode_arg(int flags, va_list ap) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}
int open(const char *path, int flags, ...) {
    va_list ap; va_start(ap, flags);
    mode_t mode = mode_arg(flags, ap);
    va_end(ap);
    return do_open(AT_FDCWD, path, flags, mode);
}
int openat(int dirfd, const char *path, int flags, ...) {
    va_list ap; va_start(ap, flags);
    mode_t mode = mode_arg(flags, ap);
    va_end(ap);
    return do_open(dirfd, path, flags, mode);
}
int open64(const char *, int, ...) __attribute__((alias("open")));
int __open(const char *, int, ...) __nonnull((1)) __attribute__((alias("open")));
int __open64(const char *, int, ...) __nonnull((1)) __attribute__((alias("open")));
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));
int __open_2(const char *path, int flags) { return do_open(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return do_open(AT_FDCWD, path, flags, 0); }
int __openat_2(int d, const char *path, int flags) { return do_open(d, path, flags, 0); }
int __openat64_2(int d, const char *path, int flags) { return do_open(d, path, flags, 0); }
int creat(const char *path, mode_t mode) { return do_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *, mode_t) __attribute__((alias("creat")));

// glibc's mkstemp family opens internally, past the PLT, so it is replaced.
static int temp_name(char *template, int suffix) {
    static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strlen(template);
    uint8_t random[6];
    if (suffix < 0 || n < 6 + (size_t)suffix || strncmp(template + n - suffix - 6, "XXXXXX", 6) != 0 ||
        syscall(SYS_getrandom, random, sizeof random, 0) != sizeof random) { errno = EINVAL; return -1; }
    for (int i = 0; i < 6; i++) template[n - suffix - 6 + i] = set[random[i] % (sizeof set - 1)];
    return 0;
}
int mkostemps(char *template, int suffix, int flags) {
    for (;;) {
        if (temp_name(template, suffix) != 0) return -1;
        int fd = do_open(AT_FDCWD, template, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
        memset(template + strlen(template) - suffix - 6, 'X', 6);
    }
}
int mkstemp(char *t) { return mkostemps(t, 0, 0); }
int mkostemp(char *t, int flags) { return mkostemps(t, 0, flags); }
int mkstemps(char *t, int suffix) { return mkostemps(t, suffix, 0); }
int mkstemp64(char *) __attribute__((alias("mkstemp")));
int mkostemp64(char *, int) __attribute__((alias("mkostemp")));
int mkstemps64(char *, int) __attribute__((alias("mkstemps")));
int mkostemps64(char *, int, int) __attribute__((alias("mkostemps")));

// ---- data ----------------------------------------------------------------

static ssize_t do_write(struct target *t, const struct iovec *iov, int count, off_t at) {
    sigset_t mask;
    size_t total = 0;
    for (int i = 0; i < count; i++) total += iov[i].iov_len;
    if (total > MAX_DATA) total = MAX_DATA;

    lock(&mask);
    int flags = fcntl(t->fd, F_GETFL);
    fstat(t->fd, &t->st);   // the size must be read under the lock
    off_t off = flags & O_APPEND ? t->st.st_size : at >= 0 ? at : lseek(t->fd, 0, SEEK_CUR);
    char *data = begin(OP_WRITE, t->st.st_ino, off, t->rel, NULL, total);
    size_t done = 0;
    for (int i = 0; i < count && done < total; i++) {
        size_t n = iov[i].iov_len < total - done ? iov[i].iov_len : total - done;
        memcpy(data + done, iov[i].iov_base, n);
        done += n;
    }
    announce();
    // Written from the copy, so the file gets exactly what the log gets.
    ssize_t n = at >= 0 ? syscall(SYS_pwrite64, t->fd, data, total, at)
                        : syscall(SYS_write, t->fd, data, total);
    if (n > 0) head()->length -= total - n;
    finish(n > 0);
    if (n > 0 && (flags & O_DSYNC)) simple(OP_SYNC, t->st.st_ino, t->rel);
    unlock(&mask);
    return n;
}

ssize_t write(int fd, const void *buf, size_t n) {
    struct target t;
    if (!fd_target(fd, &t)) return syscall(SYS_write, fd, buf, n);
    struct iovec v = { (void *)buf, n };
    return do_write(&t, &v, 1, -1);
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at) {
    struct target t;
    if (at < 0 || !fd_target(fd, &t)) return syscall(SYS_pwrite64, fd, buf, n, at);
    struct iovec v = { (void *)buf, n };
    return do_write(&t, &v, 1, at);
}
ssize_t writev(int fd, const struct iovec *v, int count) {
    struct target t;
    if (count < 0 || !fd_target(fd, &t)) return syscall(SYS_writev, fd, v, count);
    return do_write(&t, v, count, -1);
}
ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags) {
    struct target t;
    if (count < 0 || at < -1 || !fd_target(fd, &t))
        return syscall(SYS_pwritev2, fd, v, count, (long)at, 0L, flags);
    if (flags) { errno = EOPNOTSUPP; return -1; }
    return do_write(&t, v, count, at);
}
ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at) {
    if (at < 0) { errno = EINVAL; return -1; }
    return pwritev2(fd, v, count, at, 0);
}
ssize_t __write(int, const void *, size_t) __attribute__((alias("write")));
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t __pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) __attribute__((alias("pwritev2")));

int ftruncate(int fd, off_t size) {
    struct target t;
    sigset_t mask;
    if (!fd_target(fd, &t)) return syscall(SYS_ftruncate, fd, size);
    lock(&mask);
    begin(OP_SIZE, t.st.st_ino, size, t.rel, NULL, 0);
    announce();
    int r = syscall(SYS_ftruncate, fd, size);
    finish(r == 0);
    unlock(&mask);
    return r;
}
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int truncate(const char *path, off_t size) {
    int fd = do_open(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    int r = ftruncate(fd, size), saved = errno;
    syscall(SYS_close, fd);     // like any close, drops POSIX locks: no program mixes the two
    errno = saved;
    return r;
}
int truncate64(const char *, off64_t) __attribute__((alias("truncate")));

int fallocate(int fd, int mode, off_t off, off_t len) {
    struct target t;
    sigset_t mask;
    if (!fd_target(fd, &t) || off < 0 || len <= 0) return syscall(SYS_fallocate, fd, mode, off, len);
    if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        errno = EOPNOTSUPP;     // collapse, insert: not modelled, callers fall back
        return -1;
    }
    struct alloc a = { len, 0 };
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) a.flags |= ALLOC_ZERO;
    if (mode & FALLOC_FL_KEEP_SIZE) a.flags |= ALLOC_KEEP_SIZE;
    lock(&mask);
    memcpy(begin(OP_ALLOC, t.st.st_ino, off, t.rel, NULL, sizeof a), &a, sizeof a);
    announce();
    int r = syscall(SYS_fallocate, fd, mode, off, len);
    finish(r == 0);
    unlock(&mask);
    return r;
}
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int posix_fallocate(int fd, off_t off, off_t len) {
    int saved = errno, r = fallocate(fd, 0, off, len) == 0 ? 0 : errno;
    errno = saved;
    return r;
}
int posix_fallocate64(int, off64_t, off64_t) __attribute__((alias("posix_fallocate")));

// Kernel-side copies would bypass the log. Callers of copy_file_range must cope
// with ENOSYS and do. Callers of sendfile (Foundation's copyItem) need not, so
// that one is carried out as reads and recorded writes.
ssize_t copy_file_range(int in, off64_t *ioff, int out, off64_t *ooff, size_t n, unsigned flags) {
    struct target t;
    if (fd_target(out, &t)) { errno = ENOSYS; return -1; }
    return syscall(SYS_copy_file_range, in, ioff, out, ooff, n, flags);
}
ssize_t sendfile(int out, int in, off_t *off, size_t n) {
    struct target t;
    char buf[65536];
    size_t done = 0;
    if (!fd_target(out, &t)) return syscall(SYS_sendfile, out, in, off, n);
    while (done < n) {
        size_t want = n - done < sizeof buf ? n - done : sizeof buf;
        ssize_t got = off ? pread(in, buf, want, *off) : read(in, buf, want);
        if (got <= 0) return got < 0 && done == 0 ? -1 : (ssize_t)done;
        struct iovec v = { buf, got };
        ssize_t put = do_write(&t, &v, 1, -1);
        if (put != got && !off) lseek(in, (put < 0 ? 0 : put) - got, SEEK_CUR);
        if (put < 0) return done == 0 ? -1 : (ssize_t)done;
        if (off) *off += put;
        done += put;
        if (put != got) break;
    }
    return done;
}
ssize_t sendfile64(int, int, off64_t *, size_t) __attribute__((alias("sendfile")));

// The real sync is skipped by default: only its place in the order matters.
// When it is made, the lock is held over it, so that the record covers exactly
// the writes recorded before it.
static int do_sync(int fd, long call) {
    struct target t;
    sigset_t mask;
    if (!fd_target(fd, &t)) return syscall(call, fd);
    lock(&mask);
    int r = real_sync ? syscall(call, fd) : 0;
    if (r == 0) simple(OP_SYNC, t.st.st_ino, t.rel);
    unlock(&mask);
    return r;
}
int fsync(int fd) { return do_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return do_sync(fd, SYS_fdatasync); }
// sync_file_range, msync, sync and syncfs are not recorded: the model lets them
// guarantee nothing.

// ---- directories ---------------------------------------------------------

static int do_unlink(int dirfd, const char *path, int flags) {
    char rel[PATH_MAX];
    struct stat st;
    sigset_t mask;
    if (!resolve(dirfd, path, 0, rel)) return syscall(SYS_unlinkat, dirfd, path, flags);
    lock(&mask);
    int known = rel_lstat(rel, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    if (known) {
        begin(flags & AT_REMOVEDIR ? OP_RMDIR : OP_UNLINK, st.st_ino, 0, rel, NULL, 0);
        announce();
    }
    int r = syscall(SYS_unlinkat, dirfd, path, flags);
    if (known) finish(r == 0);
    unlock(&mask);
    return r;
}
int unlink(const char *path) { return do_unlink(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return do_unlink(dirfd, path, flags); }
int rmdir(const char *path) { return do_unlink(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int r = unlink(path);
    return r != 0 && errno == EISDIR ? rmdir(path) : r;
}

static int do_rename(int odir, const char *old, int ndir, const char *new, unsigned flags) {
    char from[PATH_MAX], to[PATH_MAX];
    struct stat a, b;
    sigset_t mask;
    int in = resolve(odir, old, 0, from), out = resolve(ndir, new, 0, to);
    if (!in && !out) return syscall(SYS_renameat2, odir, old, ndir, new, flags);
    if (flags & ~RENAME_NOREPLACE) { errno = EINVAL; return -1; }
    if (!in) unsupported("rename into the root from outside (or from an ignored name)", to);
    lock(&mask);
    int known = in && rel_lstat(from, &a) == 0 && (S_ISREG(a.st_mode) || S_ISDIR(a.st_mode));
    // Renaming onto another name of the same file does nothing at all.
    if (known && out && rel_lstat(to, &b) == 0 && a.st_ino == b.st_ino) known = 0;
    if (known) {
        if (out) begin(OP_RENAME, a.st_ino, 0, from, to, 0);
        else begin(OP_UNLINK, a.st_ino, 0, from, NULL, 0);
        announce();
    }
    int r = syscall(SYS_renameat2, odir, old, ndir, new, flags);
    if (known) finish(r == 0);
    unlock(&mask);
    return r;
}
int rename(const char *old, const char *new) { return do_rename(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int od, const char *old, int nd, const char *new) { return do_rename(od, old, nd, new, 0); }
int renameat2(int od, const char *old, int nd, const char *new, unsigned flags) { return do_rename(od, old, nd, new, flags); }

int mkdirat(int dirfd, const char *path, mode_t mode) {
    char rel[PATH_MAX];
    struct stat st;
    sigset_t mask;
    if (!resolve(dirfd, path, 0, rel)) return syscall(SYS_mkdirat, dirfd, path, mode);
    lock(&mask);
    int is_new = rel_lstat(rel, &st) != 0;
    if (is_new) { begin(OP_MKDIR, 0, 0, rel, NULL, 0); announce(); }
    int r = syscall(SYS_mkdirat, dirfd, path, mode);
    if (r == 0 && rel_lstat(rel, &st) == 0) { head()->id = st.st_ino; head()->offset = st.st_mode & 07777; }
    if (is_new) finish(r == 0);
    unlock(&mask);
    return r;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
char *mkdtemp(char *template) {
    for (;;) {
        if (temp_name(template, 0) != 0) return NULL;
        if (mkdir(template, 0700) == 0) return template;
        if (errno != EEXIST) return NULL;
        memset(template + strlen(template) - 6, 'X', 6);
    }
}

int linkat(int odir, const char *old, int ndir, const char *new, int flags) {
    char from[PATH_MAX], to[PATH_MAX];
    struct stat st;
    sigset_t mask;
    if (!resolve(ndir, new, 0, to)) return syscall(SYS_linkat, odir, old, ndir, new, flags);
    if (!resolve(odir, old, (flags & AT_SYMLINK_FOLLOW) != 0, from)) {
        unsupported("link into the root from outside", to);
        return syscall(SYS_linkat, odir, old, ndir, new, flags);
    }
    lock(&mask);
    int known = rel_lstat(from, &st) == 0 && S_ISREG(st.st_mode);
    struct stat there;
    if (rel_lstat(to, &there) == 0) known = 0;  // will fail with EEXIST
    if (known) { begin(OP_LINK, st.st_ino, 0, from, to, 0); announce(); }
    int r = syscall(SYS_linkat, odir, old, ndir, new, flags);
    if (known) finish(r == 0);
    unlock(&mask);
    return r;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

// ---- things the log cannot express: say so, so that replay refuses ---------

int symlinkat(const char *text, int dirfd, const char *path) {
    char rel[PATH_MAX];
    if (resolve(dirfd, path, 0, rel)) unsupported("symlink", rel);
    return syscall(SYS_symlinkat, text, dirfd, path);
}
int symlink(const char *text, const char *path) { return symlinkat(text, AT_FDCWD, path); }

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
    struct target t;
    int shared_map = (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
    if (fd >= 0 && shared_map && (prot & PROT_WRITE) && fd_target(fd, &t))
        unsupported("writable shared mapping", t.rel);
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
void *mmap64(void *, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));

// stdio writes from inside glibc, past the PLT.
static FILE *real_fopen(const char *name, const char *path, const char *mode) {
    char rel[PATH_MAX];
    if (is_note(path)) return NULL;
    if (strpbrk(mode, "wa+") && resolve(AT_FDCWD, path, 1, rel)) unsupported("stdio stream open for writing", rel);
    FILE *(*real)(const char *, const char *) = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, name);
    return real(path, mode);
}
FILE *fopen(const char *path, const char *mode) { return real_fopen("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return real_fopen("fopen64", path, mode); }
FILE *fdopen(int fd, const char *mode) {
    struct target t;
    if (strpbrk(mode, "wa+") && fd_target(fd, &t)) unsupported("stdio stream open for writing", t.rel);
    FILE *(*real)(int, const char *) = (FILE *(*)(int, const char *))dlsym(RTLD_NEXT, "fdopen");
    return real(fd, mode);
}

// A program that closes every fd it does not know must not close the log. A
// later file under the same number would then receive our records.
int close(int fd) { return active && fd == log_fd ? 0 : syscall(SYS_close, fd); }

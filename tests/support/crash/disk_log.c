/* Logs every change to files below DISK_LOG_ROOT, and every sync of one, so that a test can tell what a
   disk that lost its power would hold. Preloaded into a process: see disk_log.py for the format. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE, RENAME, UNLINK, CREATE, SYNC, MKDIR, RMDIR };

static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISK_LOG"), *below = getenv("DISK_LOG_ROOT");
  if (!path || !below || !realpath(below, root)) return;
  root_length = strlen(root);
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  /* Out of the way of programs that number their own descriptors. */
  log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 700);
  syscall(SYS_close, fd);
}

static int is_ours(const char *path) {
  return log_fd >= 0 && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static void put(uint32_t what, const char *path, const char *other, uint64_t offset, const void *data,
                uint64_t length) {
  int before = errno;
  struct { uint32_t what, path_length, other_length, pid; uint64_t offset, length; } head = {
      what, strlen(path), strlen(other), getpid(), offset, length};
  struct iovec parts[] = {{&head, sizeof head},
                          {(void *)path, head.path_length},
                          {(void *)other, head.other_length},
                          {(void *)data, data ? length : 0}};
  if (!data) head.length = what == TRUNCATE ? length : 0;
  syscall(SYS_writev, log_fd, parts, 4);
  errno = before;
}

/* Returns whether the descriptor is a file or folder below the root, and its path. */
static int path_of(int fd, char *path) {
  char link[64];
  if (log_fd < 0 || fd == log_fd) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return is_ours(path);
}

static int path_at(int folder, const char *name, char *path) {
  char parent[PATH_MAX], copy[PATH_MAX], real[PATH_MAX];
  if (log_fd < 0 || !name) return 0;
  if (name[0] == '/' || folder == AT_FDCWD) {
    snprintf(copy, sizeof copy, "%s", name);
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, parent, sizeof parent - 1);
    if (length <= 0) return 0;
    parent[length] = 0;
    if (snprintf(copy, sizeof copy, "%s/%s", parent, name) >= (int)sizeof copy) return 0;
  }
  char *slash = strrchr(copy, '/');
  const char *last = slash ? slash + 1 : copy;
  if (slash) *slash = 0;
  if (!realpath(slash ? (*copy ? copy : "/") : ".", real)) return 0;
  if (snprintf(path, PATH_MAX, "%s/%s", real, last) >= PATH_MAX) return 0;
  return is_ours(path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void note_write(int fd, const void *data, size_t length, off_t offset) {
  char path[PATH_MAX];
  if (path_of(fd, path)) put(WRITE, path, "", offset, data, length);
}

ssize_t write(int fd, const void *data, size_t length) {
  if (log_fd >= 0) {
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode))
      note_write(fd, data, length, flags & O_APPEND ? status.st_size : at);
  }
  return syscall(SYS_write, fd, data, length);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  note_write(fd, data, length, offset);
  return syscall(SYS_pwrite64, fd, data, length, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) {
  return pwrite(fd, data, length, offset);
}

int ftruncate(int fd, off_t length) {
  char path[PATH_MAX];
  if (path_of(fd, path)) put(TRUNCATE, path, "", 0, NULL, length);
  return syscall(SYS_ftruncate, fd, length);
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static int synced(int number, int fd) {
  char path[PATH_MAX];
  int result = syscall(number, fd);
  if (!result && path_of(fd, path)) put(SYNC, path, "", 0, NULL, 0);
  return result;
}

int fsync(int fd) { return synced(SYS_fsync, fd); }
int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

static int opened(int folder, const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  struct stat status;
  int is_new = 0, counts = (flags & (O_CREAT | O_TRUNC)) && path_at(folder, name, path);
  /* Opened to append: noted each time, because the C library's own writes pass by this one. */
  if (counts) is_new = flags & O_APPEND || stat(path, &status) != 0;
  int fd = syscall(SYS_openat, folder, name, flags, mode);
  if (fd >= 0 && counts && is_new) put(CREATE, path, "", 0, NULL, 0);
  if (fd >= 0 && counts && !is_new && flags & O_TRUNC) put(TRUNCATE, path, "", 0, NULL, 0);
  return fd;
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list more; \
    va_start(more, flags); \
    mode = va_arg(more, mode_t); \
    va_end(more); \
  }

int open(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return opened(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  char old[PATH_MAX], new[PATH_MAX];
  int counts = path_at(from_folder, from, old) && path_at(to_folder, to, new);
  int result = syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
  if (!result && counts) put(RENAME, old, new, 0, NULL, 0);
  return result;
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

static int removed(int folder, const char *name, int flags) {
  char path[PATH_MAX];
  int counts = path_at(folder, name, path);
  int result = syscall(SYS_unlinkat, folder, name, flags);
  if (!result && counts) put(flags & AT_REMOVEDIR ? RMDIR : UNLINK, path, "", 0, NULL, 0);
  return result;
}

int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return removed(folder, name, flags); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
  char path[PATH_MAX];
  int counts = path_at(folder, name, path);
  int result = syscall(SYS_mkdirat, folder, name, mode);
  if (!result && counts) put(MKDIR, path, "", mode, NULL, 0);
  return result;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

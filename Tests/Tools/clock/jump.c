// LD_PRELOAD: shifts the time of day of a program by the seconds in the file CLOCK_JUMP. An operator who sets the clock
// of the machine has the same effect. The file is read each time. Clocks that only run forward are left as they are.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
  const char *path = getenv("CLOCK_JUMP");
  FILE *file = path ? fopen(path, "re") : NULL;
  long seconds = 0;
  if (!file) return 0;
  if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
  fclose(file);
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int code = (int)syscall(SYS_clock_gettime, clock, time);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
  return code;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  int code = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return code;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

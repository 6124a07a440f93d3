/* Moves the wall clock of a program by CLOCK_OFFSET_S seconds; its other clocks stay. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    const char *text = getenv("CLOCK_OFFSET_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, out);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) out->tv_sec += offset();
    return code;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(out, zone);
    if (code == 0) out->tv_sec += offset();
    return code;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

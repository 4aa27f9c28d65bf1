// How many threads this process should run.
#include "runtime/host/threads.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int rt_cpu_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n > 0 && n <= 4096) return (int)n;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

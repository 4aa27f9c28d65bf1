// Internal: threads of the host.
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

int rt_cpu_threads(void); // OMP_NUM_THREADS, else the processors this process may use

#endif

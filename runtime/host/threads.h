// Internal: threads of the host.
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

int rt_cpu_threads(void); // OMP_NUM_THREADS, otherwise the number of processors that this process
                          // may use

#endif

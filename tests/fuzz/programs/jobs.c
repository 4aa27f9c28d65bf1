#include "tests/fuzz/programs/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

Report *report_new(void)
{
    void *p = mmap(NULL, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void report_clear(Report *r)
{
    memset(r, 0, sizeof *r);
}

void job_here(const Options *o, const Variant *v, const char *text, const char *wide, Report *r)
{
    Trial t = {.text = text,
               .wide = wide,
               .device = o->device,
               .variant = v,
               .seed = o->seed,
               .ops = r->ops,
               .undecided = &r->undecided,
               .compared = &r->compared};
    trial_run(&t, r->out, MOST_BATCH);
    r->finished = true;
}

pid_t job_start(const Options *o, const Variant *v, const char *text, const char *wide, Report *r)
{
    report_clear(r);
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    setpgid(0, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, 1), dup2(null, 2);
    job_here(o, v, text, wide, r);
    _exit(0);
}

void job_kill(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

void job_ended(Report *r, int status, bool hung, int n)
{
    if (r->finished) return;
    for (int i = 0; i < n; i++) {
        Outcome *o = &r->out[i];
        if (o->state != UNKNOWN) continue;
        o->state = hung ? HUNG : CRASHED;
        snprintf(o->why, sizeof o->why, "%s %d", hung ? "over its time" : "ended by signal",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

Outcome job_try(const Options *o, const Variant *v, const char *text, const char *wide, int number,
                Report *r)
{
    pid_t pid = job_start(o, v, text, wide, r);
    double end = clock_now() + o->limit;
    int status = 0;
    bool hung = false;
    Outcome failed = {FAILED, "cannot start a process"};
    if (pid < 0) return failed;
    for (long wait = 200000; waitpid(pid, &status, WNOHANG) == 0;
         wait += wait < 20000000 ? wait / 4 : 0) {
        if (!hung && clock_now() > end) {
            hung = true;
            job_kill(pid);
        }
        nanosleep(&(struct timespec){.tv_nsec = wait}, NULL);
    }
    job_ended(r, status, hung, MOST_BATCH);
    return r->out[number];
}

// libnvrtc of the shim: the compiled image is the text itself, which the driver compiles when the
// first kernel is launched, all kernels of a program at once. That NVRTC takes the text is tested
// where it is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/shim/shim.h"

struct _nvrtcProgram {
    char *text;
    bool refused;
};

static const char refusal[] = "error: the test wants it so\nmore";

NvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 99;
    return NVRTC_OK;
}

const char *nvrtcGetErrorString(NvrtcResult r)
{
    return r == NVRTC_OK ? "success" : "failure";
}

NvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    *n = 3;
    return NVRTC_OK;
}

NvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = 80;
    archs[1] = 90;
    archs[2] = 100;
    return NVRTC_OK;
}

NvrtcResult nvrtcCreateProgram(NvrtcProgram *p, const char *text, const char *name, int nheaders,
                               const char *const *headers, const char *const *names)
{
    (void)name, (void)nheaders, (void)headers, (void)names;
    *p = malloc(sizeof **p);
    if (!*p) return 1;
    (*p)->refused = false;
    (*p)->text = malloc(strlen(text) + 16);
    if (!(*p)->text) return 1;
    sprintf((*p)->text, "host shim\n%s", text);
    return NVRTC_OK;
}

NvrtcResult nvrtcDestroyProgram(NvrtcProgram *p)
{
    free((*p)->text);
    free(*p);
    return NVRTC_OK;
}

// Whether the file has been there within the time that a product takes to be measured, and more.
static bool met(void)
{
    const char *file = getenv("SHIM_MEET");
    for (int ms = 0; file && access(file, F_OK); ms++) {
        if (ms == 60000) return false;
        usleep(1000);
    }
    return true;
}

NvrtcResult nvrtcCompileProgram(NvrtcProgram p, int n, const char *const *options)
{
    const char *word = getenv("SHIM_REFUSE"); // kernels in whose text it stands do not compile
    const char *line = strstr(p->text, "\n#line 1 \"");
    (void)n, (void)options;
    p->refused = (word && strstr(line ? line : p->text, word)) || !met();
    return p->refused ? 6 : NVRTC_OK;
}

NvrtcResult nvrtcGetProgramLogSize(NvrtcProgram p, size_t *n)
{
    *n = p->refused ? sizeof refusal : 1;
    return NVRTC_OK;
}

NvrtcResult nvrtcGetProgramLog(NvrtcProgram p, char *log)
{
    strcpy(log, p->refused ? refusal : "");
    return NVRTC_OK;
}

NvrtcResult nvrtcGetCUBINSize(NvrtcProgram p, size_t *n)
{
    *n = strlen(p->text) + 1;
    return NVRTC_OK;
}

NvrtcResult nvrtcGetCUBIN(NvrtcProgram p, char *bytes)
{
    strcpy(bytes, p->text);
    return NVRTC_OK;
}

NvrtcResult nvrtcGetPTXSize(NvrtcProgram p, size_t *n)
{
    return nvrtcGetCUBINSize(p, n);
}

NvrtcResult nvrtcGetPTX(NvrtcProgram p, char *bytes)
{
    return nvrtcGetCUBIN(p, bytes);
}

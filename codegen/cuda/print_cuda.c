// A body as CUDA C, by the variant of its schedule.
#include "codegen/cuda/print_cuda.h"

const char *in_shared(Emit *e, const char *type, int64_t offset)
{
    return emit_text(e, offset ? "(%s *)((char *)nc_shared + %lld)" : "(%s *)nc_shared", type,
                     (long long)offset);
}

void body_cuda(Emit *e, KernelPhase phase)
{
    switch (e->body->sched.variant) {
    case RUN_MAP: map_cuda(e); break;
    case RUN_TRANSPOSE: transpose_cuda(e); break;
    case RUN_INTERLEAVED: interleaved_cuda(e); break;
    case RUN_REUSE: reuse_cuda(e); break;
    case RUN_ROWS:
        if (phase == PHASE_COMBINE)
            combine_cuda(e);
        else
            row_cuda(e, phase);
        break;
    case RUN_SCAN: scan_cuda(e); break;
    case RUN_SORT: sort_cuda(e); break;
    case RUN_RADIX: radix_cuda(e); break;
    case RUN_FIRST: first_cuda(e); break;
    case RUN_IN_ORDER: in_order_cuda(e); break;
    case RUN_RECURRENCE: recurrence_cuda(e); break;
    case RUN_COLUMNS: column_cuda(e, phase); break;
    case RUN_BINS: bins_cuda(e); break;
    case RUN_SWEEP: sweep_cuda(e); break;
    case RUN_WARP_TILES:
    case RUN_TILES:
    case RUN_MMA:
    case RUN_F32_RING:
    case RUN_GROUPS: tile_program_cuda(e); break;
    case RUN_ATTENTION:
    case RUN_ATTENTION_GROUPS: attention_cuda(e); break;
    case RUN_BESIDE: break; // on the CPU only
    }
}

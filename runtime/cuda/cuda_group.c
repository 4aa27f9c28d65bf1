// What a member of a group of GPUs does in an exchange. The kernels are PTX, as those of
// cuda_copy.c.
#include <assert.h>
#include <stddef.h>

#include "runtime/cuda/cuda.h"

static_assert(sizeof(ProgError) == 32, "take_error copies 32 bytes");
static_assert(offsetof(RtRoom, flag) == 64 && offsetof(RtRoom, room) == 128 &&
                  sizeof(RtRoom) == 256,
              "trade knows the places");

const char cuda_group_ptx[] =
    // void take_error(ProgError *record, const ProgError *from, int n), by one thread
    ".visible .entry take_error(.param .u64 p_to, .param .u64 p_from, .param .u32 p_n)\n{\n"
    ".reg .pred p;\n.reg .b32 n, i, code;\n.reg .b64 to, from, a, b;\n"
    "ld.param.u64 to, [p_to];\nld.param.u64 from, [p_from];\nld.param.u32 n, [p_n];\n"
    "mov.u32 i, 0;\n"
    "next:\nsetp.ge.u32 p, i, n;\n@p bra done;\n"
    "ld.global.u32 code, [from];\nsetp.ne.u32 p, code, 0;\n@p bra found;\n"
    "add.u64 from, from, 32;\nadd.u32 i, i, 1;\nbra next;\n"
    "found:\nld.global.v2.u64 {a, b}, [from];\nst.global.v2.u64 [to], {a, b};\n"
    "ld.global.v2.u64 {a, b}, [from + 16];\nst.global.v2.u64 [to + 16], {a, b};\n"
    "st.global.u32 [to + 4], i;\n"
    "done:\nret;\n}\n"
    // void trade(RtRoom *room, unsigned *to, const unsigned *from, unsigned words, unsigned each,
    //            unsigned n, unsigned self, unsigned most), by one block
    ".visible .entry trade(.param .u64 p_room, .param .u64 p_to, .param .u64 p_from, "
    ".param .u32 p_words, .param .u32 p_each, .param .u32 p_n, .param .u32 p_self, "
    ".param .u32 p_most)\n{\n"
    ".reg .pred p, q;\n.reg .b64 begin, now;\n"
    ".reg .b32 t, step, words, each, n, self, most, done, next, half, peer, i, v, at, seen;\n"
    ".reg .b64 to, from, room, other, dst, src, a, b;\n"
    "ld.param.u64 room, [p_room];\nld.param.u64 to, [p_to];\nld.param.u64 from, [p_from];\n"
    "ld.param.u32 words, [p_words];\nld.param.u32 each, [p_each];\nld.param.u32 n, [p_n];\n"
    "ld.param.u32 self, [p_self];\nld.param.u32 most, [p_most];\n"
    "mov.u32 t, %tid.x;\nmov.u32 step, %ntid.x;\n"
    "ld.volatile.global.u32 done, [room];\nadd.u32 next, done, 1;\n"
    "and.b32 half, done, 1;\nmul.lo.u32 half, half, n;\n"
    // the words to words[half + self] of every member
    "mov.u32 peer, 0;\n"
    "push:\nsetp.ge.u32 p, peer, n;\n@p bra pushed;\n"
    "mul.wide.u32 a, peer, 8;\nadd.u64 a, room, a;\nld.global.u64 other, [a + 128];\n"
    "add.u32 at, half, self;\nmul.lo.u32 at, at, most;\nmul.wide.u32 b, at, 4;\n"
    "add.u64 dst, other, b;\nadd.u64 dst, dst, 256;\n"
    "mul.lo.u32 at, peer, each;\nmul.wide.u32 b, at, 4;\nadd.u64 src, from, b;\n"
    "mov.u32 i, t;\n"
    "word:\nsetp.ge.u32 p, i, words;\n@p bra worded;\n"
    "mul.wide.u32 b, i, 4;\nadd.u64 a, src, b;\nld.global.u32 v, [a];\n"
    "add.u64 a, dst, b;\nst.global.u32 [a], v;\nadd.u32 i, i, step;\nbra word;\n"
    "worded:\nadd.u32 peer, peer, 1;\nbra push;\n"
    "pushed:\nfence.acq_rel.sys;\nbar.sync 0;\n"
    // thread t tells member t, and waits for it: a minute, since one that has failed never comes
    "setp.ge.u32 p, t, n;\n@p bra met;\n"
    "mul.wide.u32 a, t, 8;\nadd.u64 a, room, a;\nld.global.u64 other, [a + 128];\n"
    "mul.wide.u32 b, self, 4;\nadd.u64 a, other, b;\n"
    "st.release.sys.global.u32 [a + 64], next;\n"
    "mul.wide.u32 b, t, 4;\nadd.u64 a, room, b;\n"
    "mov.u64 begin, %globaltimer;\n"
    "spin:\nld.acquire.sys.global.u32 seen, [a + 64];\n"
    "sub.u32 seen, seen, next;\nsetp.lt.s32 p, seen, 0;\n"
    "mov.u64 now, %globaltimer;\nsub.u64 now, now, begin;\nsetp.gt.u64 q, now, 60000000000;\n"
    "@q trap;\n@p bra spin;\n"
    "met:\nbar.sync 0;\n"
    // words[half + peer] to part peer
    "mov.u32 peer, 0;\n"
    "take:\nsetp.ge.u32 p, peer, n;\n@p bra taken;\n"
    "add.u32 at, half, peer;\nmul.lo.u32 at, at, most;\nmul.wide.u32 b, at, 4;\n"
    "add.u64 src, room, b;\nadd.u64 src, src, 256;\n"
    "mul.lo.u32 at, peer, words;\nmul.wide.u32 b, at, 4;\nadd.u64 dst, to, b;\n"
    "mov.u32 i, t;\n"
    "part:\nsetp.ge.u32 p, i, words;\n@p bra parted;\n"
    "mul.wide.u32 b, i, 4;\nadd.u64 a, src, b;\nld.volatile.global.u32 v, [a];\n"
    "add.u64 a, dst, b;\nst.global.u32 [a], v;\nadd.u32 i, i, step;\nbra part;\n"
    "parted:\nadd.u32 peer, peer, 1;\nbra take;\n"
    "taken:\nsetp.ne.u32 p, t, 0;\n@p bra end;\nst.volatile.global.u32 [room], next;\n"
    "end:\nret;\n}\n";

RtCode cuda_take_error(RtStream *s, void *record, const void *from, int n, RtError *e)
{
    CudaDevice *d = s->d;
    if (cuda_need_builtin(d, e)) return e->code;
    void *params[] = {&record, &from, &n};
    CuLaunch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = s->s};
    CU_AT(d, e, "taking over an error", NULL, launch(&launch, d->take_error, params, NULL));
    return RT_OK;
}

RtCode cuda_trade(RtStream *s, void *room, void *to, const void *from, unsigned words, bool each,
                  int n, int self, RtError *e)
{
    CudaDevice *d = s->d;
    unsigned part = each ? words : 0, most = RT_ROOM_WORDS;
    if (cuda_need_builtin(d, e)) return e->code;
    void *params[] = {&room, &to, &from, &words, &part, &n, &self, &most};
    const unsigned threads = words >= 1024 ? 1024 : words > 64 ? 256 : 64;
    CuLaunch launch = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .stream = s->s};
    CU_AT(d, e, "an exchange between devices", NULL, launch(&launch, d->trade, params, NULL));
    return RT_OK;
}

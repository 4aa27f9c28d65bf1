// Software pipelining of loads. The loop
//
//     loop k (ahead n): load A[k]; load r; B[k] = r; acc += A[k] B[k]
//
// becomes a prologue with the loads of iterations 0 to n - 1, asynchronous copies first, and a loop
// in which iteration k issues the loads of iteration k + n, multiplies, and only then moves the
// values that were loaded into registers to shared memory.
#include "codegen/tile/tile.h"

enum { MOST_FETCHED = 16 }; // vectors that a thread has in registers at once

static bool copies(const TileOp *op)
{
    return op->kind == T_LOAD && op->how == BY_ASYNC;
}

static bool moves(const TileOp *op) // loaded values from registers to shared memory
{
    return op->kind == T_MOVE;
}

int tile_vectors(const TileProgram *p, const Tile *t)
{
    return (int)ceil_div((int64_t)t->lines * t->line / p->vector, p->body->sched.threads);
}

static void first_loads(TileProgram *p, const TileOp *in, int n, int ahead)
{
    int copied = 0;
    for (int i = 0; i < n; i++) copied += copies(&in[i]);
    if (copied) {
        tile_begin(p, T_LOOP, ahead);
        for (int i = 0; i < n; i++)
            if (copies(&in[i])) tile_op(p, in[i]);
        tile_end(p);
    }
    for (int i = 0; i < n; i++) { // several iterations' loads are in flight together
        if (!moves(&in[i])) continue;
        int each = tile_vectors(p, &p->tile[in[i].dst]);
        int together = (int)at_most(each >= MOST_FETCHED ? 1 : MOST_FETCHED / each, ahead);
        p->tile[in[i].a].places = together; // in registers
        tile_begin(p, T_LOOP, ahead)->together = together;
        tile_op(p, in[i - 1]);
        tile_op(p, in[i]);
        tile_end(p);
    }
}

// The order of ops in an iteration: loads first, then products, then moves.
static int turn_of(const TileOp *op)
{
    return op->kind == T_LOAD ? 0 : moves(op) ? 2 : 1;
}

static void expand(TileProgram *p, TileOp head, const TileOp *in, int n)
{
    int ahead = head.ahead;
    if (head.rolled)
        head.early = ahead;
    else
        first_loads(p, in, n, ahead);
    head.ahead = 0;
    tile_op(p, head);
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < n; i++) {
            if (turn_of(&in[i]) != turn) continue;
            tile_op(p, in[i]);
            p->op[p->nops - 1].shift = turn == 1 ? 0 : ahead;
        }
    tile_end(p);
}

void tile_pipeline(TileProgram *p)
{
    TileProgram from = *p;
    p->nops = 0;
    for (int i = 0; i < from.nops; i++) {
        TileOp op = from.op[i];
        if (op.kind != T_LOOP || !op.ahead) {
            tile_op(p, op);
            continue;
        }
        int last = i;
        while (from.op[last].kind != T_END) last++;
        expand(p, op, &from.op[i + 1], last - i - 1);
        i = last;
    }
}

// Software pipelining of loads: from
//
//     loop k (ahead n): load A[k]; load r; B[k] = r; acc += A[k] B[k]
//
// to a prologue with the loads of iterations 0 to n - 1, asynchronous copies first, and a loop in
// which each iteration issues the loads of the one n later, multiplies, and only then moves to
// shared memory what has arrived in registers.
#include "codegen/tile/tile.h"

enum { MOST_FETCHED = 16 }; // vectors of a thread that are in registers at once

static const TileOp loop = {T_LOOP, .dst = -1, .a = -1, .b = -1},
                    end = {T_END, .dst = -1, .a = -1, .b = -1};

static bool copies(const TileOp *op)
{
    return op->kind == T_LOAD && op->how == BY_ASYNC;
}

static bool moves(const TileOp *op) // from registers, what a load has brought there
{
    return op->kind == T_MOVE;
}

static void at(TileProgram *p, TileOp op, int shift)
{
    op.shift = shift;
    tile_op(p, op);
}

// Vectors of an operand's tile that a thread fetches.
static int vectors_a_thread(const TileProgram *p, const Tile *t)
{
    return (int)ceil_div((int64_t)t->lines * t->line / p->vector, p->body->sched.threads);
}

static void first_loads(TileProgram *p, const TileOp *in, int n, int ahead)
{
    TileOp over = loop;
    over.trips = ahead;
    int copied = 0;
    for (int i = 0; i < n; i++) copied += copies(&in[i]);
    if (copied) {
        tile_op(p, over);
        for (int i = 0; i < n; i++)
            if (copies(&in[i])) tile_op(p, in[i]);
        tile_op(p, end);
    }
    for (int i = 0; i < n; i++) { // several at once, so that their loads are in flight together
        if (!moves(&in[i])) continue;
        int each = vectors_a_thread(p, &p->tile[in[i].dst]);
        over.together = each >= MOST_FETCHED ? 1 : MOST_FETCHED / each;
        if (over.together > ahead) over.together = ahead;
        Tile *registers = &p->tile[in[i].a];
        registers->places = over.together;
        tile_op(p, over);
        tile_op(p, in[i - 1]);
        tile_op(p, in[i]);
        tile_op(p, end);
    }
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
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < n; i++) {
            int turn = in[i].kind == T_LOAD ? 0 : moves(&in[i]) ? 2 : 1;
            if (turn == pass) at(p, in[i], turn == 1 ? 0 : ahead);
        }
    tile_op(p, end);
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

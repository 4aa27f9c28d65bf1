// Mistakes in tile programs, which the verifier has to find.
#ifndef TESTS_UNIT_TILE_H
#define TESTS_UNIT_TILE_H

#include <stdio.h>
#include <string.h>

#include "codegen/tile/tile.h"
#include "tests/unit/unit.h"

static inline const char *verify(Arena *a, const TileProgram *p, uint64_t seeds)
{
    const char *found = NULL;
    for (uint64_t seed = 1; seed <= seeds && !found; seed++) found = tile_verify(a, p, seed);
    return found;
}

static inline int count(const TileProgram *p, TileKind from, TileKind to)
{
    int n = 0;
    for (int i = 0; i < p->nops; i++) n += p->op[i].kind >= from && p->op[i].kind <= to;
    return n;
}

// -- mistakes -------------------------------------------------------------------------------------

static inline void leave_out(TileProgram *p, int i)
{
    memmove(&p->op[i], &p->op[i + 1], sizeof(TileOp) * (size_t)(--p->nops - i));
}

static inline void swap(TileProgram *p, int i, int j)
{
    TileOp o = p->op[i];
    p->op[i] = p->op[j];
    p->op[j] = o;
}

// Mistake number [n] at op i. false: there is none there.
static inline bool spoil(TileProgram *p, int i, int n, const char **what)
{
    TileOp *op = &p->op[i], *next = &p->op[i + 1];
    bool ring = op->kind == T_LOAD && op->how == BY_ASYNC;
    ring |= op->kind == T_MOVE && p->tile[op->dst].axis;
    ring &= op->shift < p->steps + !p->atom->word; // else it is never done
    static const char *const names[] = {
        "a barrier less",
        "of a smaller scope",
        "a wait less",
        "a group more under way",
        "a group not ended",
        "a wait behind its barrier",
        "a barrier behind what needs it",
        "the next step's place",
        "the place before",
        "a load less",
        "a product less",
        "a place less",
        "tiles that overlap",
        "one iteration less",
        "twice multiplied",
    };
    if (n >= (int)(sizeof names / sizeof *names)) return false;
    *what = names[n];
    switch (n) {
    case 0: return op->kind == T_BARRIER && (leave_out(p, i), true);
    case 1:
        if (op->kind != T_BARRIER || op->scope == OF_WARP) break;
        op->scope = op->scope == OF_BLOCK ? OF_WARP : OF_BLOCK;
        return true;
    case 2: return op->kind == T_WAIT && (leave_out(p, i), true);
    case 3: return op->kind == T_WAIT && (op->count++, true);
    case 4:
        if (op->kind != T_COMMIT || p->tile[p->op[i - 1].dst].stays) break; // the next group does
        leave_out(p, i);
        return true;
    case 5: return op->kind == T_WAIT && next->kind == T_BARRIER && (swap(p, i, i + 1), true);
    case 6:
        if (op->kind != T_BARRIER || (next->kind != T_MMA && next->kind != T_MAP)) break;
        swap(p, i, i + 1);
        return true;
    case 7: return op->kind == T_MMA && (op->shift++, true);
    case 8: return ring && op->shift && (op->shift--, true);
    case 9:
        if (!ring && (op->kind != T_LOAD || p->tile[op->dst].layout != L_OPERAND)) break;
        leave_out(p, i);
        return true;
    case 10: return op->kind == T_MMA && (leave_out(p, i), true);
    case 11:
        if (op->kind != T_MMA || p->tile[op->b].places < 2 || p->steps < p->tile[op->b].places)
            break;
        p->tile[op->b].places--;
        return true;
    case 12:
        if (op->kind != T_MMA || !tile_shared(&p->tile[op->b])) break;
        p->tile[op->b].offset = p->tile[op->a].offset;
        return true;
    case 13: return op->kind == T_LOOP && op->trips > 1 && (op->trips--, true);
    case 14:
        if (op->kind != T_MMA || p->nops == TILE_MOST_OPS) break;
        if (p->tile[op->dst].layout == L_SCORES) break; // made anew
        memmove(next, op, sizeof(TileOp) * (size_t)(p->nops++ - i));
        return true;
    }
    return false;
}

typedef bool Spoil(TileProgram *p, int op, int n, const char **what);

// Every mistake at every op of a sound program, each verified with so many seeds; returns how many
// there are.
static inline int all_found(Spoil *put, const TileProgram *p, uint64_t seeds, const char *name,
                            const char *text)
{
    int mistakes = 0;
    for (int at = 0; at < p->nops; at++)
        for (int n = 0;; n++) {
            TileProgram broken = *p;
            const char *what = NULL;
            bool is = put(&broken, at, n, &what);
            if (!what) break;
            if (!is) continue;
            mistakes++;
            Arena *once = arena_new();
            CHECK_MSG(verify(once, &broken, seeds), "%s, op %d: %s is not found\n%s", name, at,
                      what, text);
            arena_free(once);
        }
    return mistakes;
}

#endif

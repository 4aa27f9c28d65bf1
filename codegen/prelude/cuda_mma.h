
// A warp's product on tensor cores, c (16, 8) += a (16, 8) * b (8, 8), rounded to tf32. Thread
// 4 g + t has a (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); b (t, g), (t + 4, g); c (g, 2 t),
// (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
NC_FN uint32_t nc_tf32(float a)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(a));
    return r;
}
NC_FN void nc_mma(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(nc_tf32(a0)), "r"(nc_tf32(a1)), "r"(nc_tf32(a2)), "r"(nc_tf32(a3)), "r"(nc_tf32(b0)),
          "r"(nc_tf32(b1)));
}

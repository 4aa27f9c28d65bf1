#!/usr/bin/env python3
"""The polynomials of codegen/prelude/c_math.h: minimax by Remez's exchange, in 90 digits (needs mpmath).

usage: tools/minimax.py   prints each polynomial's coefficients, the constant one first, and its largest weighted error
"""
from mpmath import mp, mpf, matrix, lu_solve, exp, expm1, log, sin, cos, erf, erfc, sqrt, pi, chebyt

mp.dps = 90


def remez(f, weight, low, high, degree, rounds=12):
    """The polynomial p of that degree for which the largest weight(x) * |p(x) - f(x)| is least."""
    n = degree + 2
    at = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (n - 1)) for i in range(n)]
    for _ in range(rounds):
        a, b = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(at):
            for k in range(n - 1):
                a[i, k] = x ** k
            a[i, n - 1] = (-1) ** i / weight(x)
            b[i] = f(x)
        c = lu_solve(a, b)
        c = [c[k] for k in range(n - 1)]

        def error(x):
            p = mpf(0)
            for v in reversed(c):
                p = p * x + v
            return weight(x) * (p - f(x))
        grid = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (40 * n)) for i in range(40 * n + 1)]
        e = [error(x) for x in grid]
        peaks = []  # the extreme of each run of one sign
        for x, v in zip(grid, e):
            if peaks and (peaks[-1][1] > 0) == (v > 0):
                if abs(v) > abs(peaks[-1][1]):
                    peaks[-1] = (x, v)
            else:
                peaks.append((x, v))
        while len(peaks) > n:
            peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
        if len(peaks) < n:
            break
        at = [x for x, _ in peaks]
    return c, max(abs(v) for v in e)


def show(name, f, low, high, degree, weight=lambda x: mpf(1)):
    c, e = remez(f, weight, mpf(low), mpf(high), degree)
    print(f"{name}: error 2^{float(log(e, 2)):.1f}")
    for v in c:
        print("   ", float(v).hex() if degree > 5 else mp.nstr(v, 10))


tiny = mpf(10) ** -20  # (a limit is taken at 0)
ln2 = log(mpf(2))


def at(f):  # f where it has a removable singularity at 0
    return lambda x: f(x if abs(x) > tiny else tiny)


if __name__ == "__main__":
    h = ln2 / 2 * mpf("1.0001")
    # e^r = 1 + r + r^2 q(r)
    show("exp, f64", at(lambda r: (expm1(r) - r) / r ** 2), -h, h, 10, lambda r: r ** 2 + mpf("1e-6"))
    # log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s^2
    z = (3 - 2 * sqrt(mpf(2))) ** 2 * mpf("1.001")
    show("log, f64", at(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z), tiny, z, 6)
    # erf(x) = x p(x^2) below 1; erfc(x) = e^(-x^2) p((x - 2) / (x + 2)) from there to 6
    show("erf, f64, below 1", at(lambda z: erf(sqrt(z)) / sqrt(z)), tiny, mpf("1.0001"), 11)

    def scaled(t):
        x = 2 * (1 + t) / (1 - t)
        return exp(x * x) * erfc(x)
    show("erfc, f64, from 1 to 6", scaled, mpf(-1) / 3, mpf(1) / 2, 13,
         lambda t: exp(-(2 * (1 + t) / (1 - t)) ** 2) + mpf("1e-9"))
    # sin(r) = r + r z p(z), cos(r) = 1 - z / 2 + z^2 p(z), z = r^2
    q = (pi / 4) ** 2 * mpf("1.0001")
    show("sin, f32", at(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z), mpf("1e-12"), q, 2,
         lambda z: z)
    show("cos, f32", at(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z ** 2), mpf("1e-6"), q, 2,
         lambda z: z * z)
    bits = int(mp.floor(2 / pi * mpf(2) ** 256))
    print("2/pi:", " ".join(f"{bits >> (192 - 64 * i) & (1 << 64) - 1:#018x}" for i in range(4)))

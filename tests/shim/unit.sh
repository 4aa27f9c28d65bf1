#!/bin/bash
# Unit tests that need a GPU or take one, on the device made of the host.
. "$(dirname "$0")/../lib.sh"
needs_shim
for t in runtime_cuda lib_capture codegen_lower lib_products; do
    [ $t = runtime_cuda ] || [ $t = lib_capture ] || today || continue # (others by fifths, each day)
    LIMIT=3000 expect 0 " 0 failed, 0 skipped" env QUICK=1 LD_LIBRARY_PATH="$BUILD/shim" "$BUILD/tests/unit/$t"
done
for t in lib_scale lib_draws lib_places lib_prepare; do
    today || continue
    LIMIT=3000 expect 0 " 0 failed, 0 skipped" env DEVICE=cuda:0 LD_LIBRARY_PATH="$BUILD/shim" "$BUILD/tests/unit/$t"
done
finish

"""Makes the golden files of this folder: models as netc would be given them, and what JAX computes for them.

    pip install jax && python tests/golden/make.py          (JAX 0.10 made what is in the repository)

Every case is a model of a .net file; its inputs, results and gradients, computed by JAX in double
precision, are tensors of the .safetensors file beside it, named CASE/in/NAME, CASE/out/NAME,
CASE/cell/NAME (a parameter's value) and CASE/unit/NAME: how far each element moves, in multiples of eps,
when every input is changed by a relative eps. tests/unit/lib_golden.c compares.
"""
import sys

from convolutions import convolutions
from library import library
from networks import layers, networks
from ops import elementwise, integers, products, reductions, views
from training import training, weights

if __name__ == "__main__":
    for make in (elementwise, integers, reductions, views, products, layers, networks, convolutions, library, training, weights):
        if len(sys.argv) < 2 or make.__name__ in sys.argv[1:]:
            make()

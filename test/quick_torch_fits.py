"""Tells whether quick_torch may replace functions of torch: it knows those of one version."""

import os

import torch

VERSION = "2.13.0"
FITS = torch.__version__.partition("+")[0] == VERSION and not os.environ.get("LAMINA_TEST_PLAIN_TORCH")

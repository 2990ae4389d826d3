"""torch's fused attention kernels: a file for each, listed in `registry`; `calls` turns calls of attention into theirs.

The rules that say which kernel computes an attention are those of torch 2.11 to 2.13
(aten/src/ATen/native/transformers/sdp_utils_cpp.cpp and cuda/sdp_utils.cpp), without its options for AMD.
"""

"""Users' kernels: which config each is compiled with, and the epilogues that kernels in source with a hook compute."""

// A target that nothing is run on is compiled for as the machine that it stands for.
// RUN: opt-driver %S/nvvm.mlir --target=null:nvvm:sm_90a --emit=ptx | FileCheck %s
// RUN: opt-driver %S/cpu.mlir --target=null:cpu --emit=llvm | FileCheck %s --check-prefix=CPU
// RUN: not opt-driver %S/nvvm.mlir --target=null:tpu --emit=ptx 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: .target sm_90a
// CPU: llvm.func
// WRONG: error: no target is called 'tpu'

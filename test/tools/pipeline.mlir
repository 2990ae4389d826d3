// RUN: opt-driver %s --pass-pipeline='builtin.module(func.func(canonicalize,cse),lamina-dce,func.func(cse),symbol-dce)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline=' func.func( cse , canonicalize{ max-iterations=3  top-down=false } ) , lamina-cse ' | FileCheck %s
// RUN: opt-driver --pass-pipeline=cse < %s | FileCheck %s
// RUN: opt-driver - --pass-pipeline=cse < %s | FileCheck %s
// RUN: opt-driver %s --pass-pipeline=cse -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: opt-driver %s --pass-pipeline='builtin.module()' | FileCheck %s --check-prefix=NONE
// RUN: opt-driver %s | FileCheck %s --check-prefix=NONE

// Passes of Lamina's and upstream's in one text, nested and not; bare passes stand on the module; input from a file or standard input.

// CHECK-LABEL: func.func @f
// CHECK-COUNT-1: arith.addf
// CHECK-NOT: arith.addf
// CHECK: return
// NONE-COUNT-2: arith.addf
// NONE: return
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  %1 = arith.addf %a, %a : tensor<4xf32>
  %2 = arith.mulf %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

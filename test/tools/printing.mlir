// RUN: opt-driver %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATION
// RUN: opt-driver %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: opt-driver %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDE
// RUN: opt-driver %s | FileCheck %s

// LOCATION: arith.constant dense<[1, 2, 3]> : tensor<3xi32> loc([[L:#.*]])
// LOCATION: [[L]] = loc("{{.*}}printing.mlir":15:8)
// GENERIC: "arith.constant"() <{value = dense<[1, 2, 3]> : tensor<3xi32>}> : () -> tensor<3xi32>
// ELIDE: arith.constant dense_resource<__elided__> : tensor<3xi32>
// CHECK-NOT: loc(
// CHECK: arith.constant dense<[1, 2, 3]> : tensor<3xi32>
// CHECK-NOT: loc(
func.func @f() -> tensor<3xi32> {

  %0 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  return %0 : tensor<3xi32>
}

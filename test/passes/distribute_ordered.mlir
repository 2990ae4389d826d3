// A scan down columns takes the rows in order; the loads of several rows are in flight at once, in front of all that waits for them.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-distribute' | FileCheck %s

// TILE: scf.for
// TILE: } {tile.ordered}

// CHECK-LABEL: gpu.func @running_sums
// CHECK: scf.for %{{.*}} step %c16
// CHECK-COUNT-16: {{memref|vector}}.load
// CHECK-NOT: {{memref|vector}}.load
// CHECK-COUNT-16: {{memref|vector}}.store
// What is left over runs one by one.
// CHECK: scf.for %{{.*}} to %c70{{.*}} step %c1
// CHECK: load
// CHECK: store
func.func private @running_sums(%x: tensor<70x128xf32>) -> tensor<70x128xf32> attributes {graph.kernel} {
  %s = "graph.scan"(%x) {combine = "arith.addf", dim = 0 : i64} : (tensor<70x128xf32>) -> tensor<70x128xf32>
  return %s : tensor<70x128xf32>
}

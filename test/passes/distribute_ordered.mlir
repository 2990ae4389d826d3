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
#id = affine_map<(i, j) -> (i, j)>
func.func private @running_sums(%x: tensor<70x128xf32>) -> tensor<70x128xf32> attributes {graph.kernel} {
  %s = "graph.scan"(%x) {combine = "arith.addf", dim = 0 : i64} : (tensor<70x128xf32>) -> tensor<70x128xf32>
  return %s : tensor<70x128xf32>
}

// Where a call decides how many rows there are, those that are left over take shorter turns, from where the longer ones end.
// CHECK-LABEL: gpu.func @running_sums_of_any
// CHECK: %[[ROWS:.*]] = arith.index_cast
// CHECK: %[[LONG:.*]] = arith.muli %{{.*}}, %c10 overflow<nsw>
// CHECK: %[[END:.*]] = arith.addi %c0, %[[LONG]]
// CHECK: scf.for %{{.*}} = %c0 to %[[END]] step %c10
// CHECK: %[[LEFT:.*]] = arith.subi %[[ROWS]], %[[END]]
// CHECK: %[[TURNS:.*]] = arith.divui %[[LEFT]], %c5
// CHECK: %[[SHORT:.*]] = arith.muli %[[TURNS]], %c5
// CHECK: %[[NEXT:.*]] = arith.addi %[[END]], %[[SHORT]]
// CHECK: scf.for %{{.*}} = %[[END]] to %[[NEXT]] step %c5
// CHECK: %[[LAST:.*]] = arith.addi %[[NEXT]], %{{.*}} : index
// CHECK: scf.for %{{.*}} = %[[NEXT]] to %[[LAST]] step %c2
// CHECK: scf.for %{{.*}} = %[[LAST]] to %[[ROWS]] step %c1
func.func private @running_sums_of_any(%x: tensor<?x128xf32, ["s0~70", 128]>, %y: tensor<?x128xf32, ["s0~70", 128]>, %z: tensor<?x128xf32, ["s0~70", 128]>) -> tensor<?x128xf32, ["s0~70", 128]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~70"} : () -> index
  %e = tensor.empty(%n) : tensor<?x128xf32, ["s0~70", 128]>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y, %z : tensor<?x128xf32, ["s0~70", 128]>, tensor<?x128xf32, ["s0~70", 128]>, tensor<?x128xf32, ["s0~70", 128]>) outs(%e : tensor<?x128xf32, ["s0~70", 128]>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %u: f32):
    %0 = arith.addf %a, %b : f32
    %1 = arith.addf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<?x128xf32, ["s0~70", 128]>
  %s = "graph.scan"(%sum) {combine = "arith.addf", dim = 0 : i64} : (tensor<?x128xf32, ["s0~70", 128]>) -> tensor<?x128xf32, ["s0~70", 128]>
  return %s : tensor<?x128xf32, ["s0~70", 128]>
}

// Lanes past the last column are not added to others, so what they read need not be replaced by zeros.
// TILE-LABEL: func.func private @running_sums_of_any_columns
// TILE-NOT: arith.select
// TILE: } {tile.ordered}
func.func private @running_sums_of_any_columns(%x: tensor<70x?xf32, [70, "s0~100"]>) -> tensor<70x?xf32, [70, "s0~100"]> attributes {graph.kernel} {
  %s = "graph.scan"(%x) {combine = "arith.addf", dim = 0 : i64} : (tensor<70x?xf32, [70, "s0~100"]>) -> tensor<70x?xf32, [70, "s0~100"]>
  return %s : tensor<70x?xf32, [70, "s0~100"]>
}

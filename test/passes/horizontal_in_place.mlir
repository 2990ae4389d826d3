// Two kernels that write to their arguments become one, which takes each argument beside the result that shares its memory.
// RUN: opt-driver %s --pass-pipeline='lamina-scatter,lamina-fuse,lamina-plan,lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s

// CHECK: "plan.launch"(%{{.*}}, %{{.*}}, %[[X:.*]], %{{.*}}, %{{.*}}, %[[Y:.*]], %[[X]], %[[Y]]) {inplace = [array<i64: 2, 6>, array<i64: 5, 7>]
// CHECK: tile.alias = array<i64: 2, 5, 6, 7>
func.func @main(%x: tensor<30xf32>, %i: tensor<8xi64>, %v: tensor<8xf32>, %y: tensor<70xf32>, %j: tensor<9xi64>, %w: tensor<9xf32>) {
  %0 = "graph.extern"(%x, %i, %v) {args = [unit, [unit], unit], callee = "aten.index_put_.default", graph.effect, kwargs = {}, reason = "scatter", strides = [array<i64: 1>]} : (tensor<30xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<30xf32>
  %1 = "graph.extern"(%y, %j, %w) {args = [unit, [unit], unit], callee = "aten.index_put_.default", graph.effect, kwargs = {}, reason = "scatter", strides = [array<i64: 1>]} : (tensor<70xf32>, tensor<9xi64>, tensor<9xf32>) -> tensor<70xf32>
  return
}

// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scatter,lamina-fuse,lamina-plan,lamina-tile{target=cpu})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scatter,lamina-fuse,lamina-plan,lamina-tile{target=cpu},lamina-tile-to-cpu)' | FileCheck %s --check-prefix=CPU
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scatter,lamina-fuse,lamina-plan,lamina-tile{target=nvvm:sm_90a},lamina-distribute)' | FileCheck %s --check-prefix=GPU

// On a CPU a program walks all edges, and blocks run along features, each of which has an element of its own. The message is computed
// in the loop. An index is checked once for each block.
// CHECK-LABEL: func.func private @{{.*}}tile.alias
// CHECK: scf.for %{{.*}} to %c90 step %c1
// CHECK: arith.mulf {{.*}} vector<16xf32>
// CHECK: memref.load %{{.*}} : memref<90xi64>
// CHECK: "tile.check"
// CHECK: scf.if
// CHECK: "tile.scatter"({{.*}}) {combine = "arith.addf"} : (vector<16xf32>, memref<320xf32>, vector<16xindex>, vector<16xi1>) -> ()
// CPU: %[[OLD:.*]] = vector.load %[[O:.*]][%[[AT:.*]]] : memref<320xf32>, vector<16xf32>
// CPU: %[[NEW:.*]] = arith.addf %[[OLD]], %{{.*}} : vector<16xf32>
// CPU: vector.store %[[NEW]], %[[O]][%[[AT]]]
// GPU: memref.atomic_rmw addf {{.*}} {tile.neighbors = 4 : i64}
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<20x16xf32>, %i: tensor<90xi64>, %v: tensor<90x16xf32>) -> tensor<20x16xf32> {
  %e = tensor.empty() : tensor<90x16xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<90x16xf32>) outs(%e : tensor<90x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<90x16xf32>
  %0 = "graph.extern"(%x, %i, %m) {args = [unit, [unit], unit, true], callee = "aten.index_put.default", kwargs = {}, reason = "scatter", strides = [array<i64: 16, 1>]} : (tensor<20x16xf32>, tensor<90xi64>, tensor<90x16xf32>) -> tensor<20x16xf32>
  return %0 : tensor<20x16xf32>
}

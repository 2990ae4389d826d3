// An element that is compared with the maximum of its row has the same bits where the maximum is computed and where it is compared:
// its kernels have no approximations and no fused multiply-adds. A maximum that is only subtracted is free to.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse,lamina-plan,lamina-tile{target=nvvm:sm_90a})' | FileCheck %s --check-prefix=TILE

// CHECK-LABEL: func.func @main
// CHECK: arith.maximumf
// CHECK: arith.cmpf oeq
// CHECK: {graph.consistent, sym_name = "divf{{.*}}"}
// TILE: func.func private @divf{{.*}} tile.consistent
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> (tensor<64x1xf32>, tensor<64x32xi1>) {
  %e = tensor.empty() : tensor<64x32xf32>
  %q = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x32xf32>, tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<64x32xf32>
  %least = arith.constant dense<0xFF800000> : tensor<64x1xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%q : tensor<64x32xf32>) outs(%least : tensor<64x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.maximumf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64x1xf32>
  %f = tensor.empty() : tensor<64x32xi1>
  %h = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%q, %m : tensor<64x32xf32>, tensor<64x1xf32>) outs(%f : tensor<64x32xi1>) {
  ^bb0(%a: f32, %b: f32, %o: i1):
    %0 = arith.cmpf oeq, %a, %b : f32
    linalg.yield %0 : i1
  } -> tensor<64x32xi1>
  return %m, %h : tensor<64x1xf32>, tensor<64x32xi1>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.consistent
// TILE-NOT: tile.consistent
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %e = tensor.empty() : tensor<64x32xf32>
  %q = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x32xf32>, tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<64x32xf32>
  %least = arith.constant dense<0xFF800000> : tensor<64x1xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%q : tensor<64x32xf32>) outs(%least : tensor<64x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.maximumf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64x1xf32>
  %h = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%q, %m : tensor<64x32xf32>, tensor<64x1xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    %1 = arith.cmpf une, %a, %a : f32
    %2 = arith.select %1, %a, %0 : f32
    linalg.yield %2 : f32
  } -> tensor<64x32xf32>
  return %h : tensor<64x32xf32>
}

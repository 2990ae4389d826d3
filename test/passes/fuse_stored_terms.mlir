// A kernel stores values that it also adds up, as far as they reach: the last part of a sum over symbolic sizes is padded.
// RUN: opt-driver %s --pass-pipeline='lamina-split-reductions{elements=65536 rows=8 columns=4096 parts=64 programs=128 ragged=4096},lamina-fuse{balance=16}' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-split-reductions{elements=65536 rows=8 columns=4096 parts=64 programs=128 ragged=4096},lamina-fuse{balance=16},lamina-plan,lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s --check-prefix=TILE

// The loops that become one are those of what is stored, too: the caller's tensor is a view of it.
// CHECK-LABEL: func.func @main
// CHECK: %[[BOTH:.*]]:2 = "graph.group"(%arg0) ({
// CHECK: %[[VALUES:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]}
// CHECK: math.exp
// CHECK: tensor.pad %[[VALUES]]
// CHECK: iterator_types = ["parallel", "reduction", "parallel"]
// CHECK: -> (tensor<?x64xf32, ["s0~90*s1~700", 64]>, tensor<?x64xf32,
// CHECK: "graph.group"(%[[BOTH]]#1)
// CHECK: tensor.expand_shape %[[BOTH]]#0 {{\[\[}}0, 1], [2]]
// CHECK-NOT: graph.group
// CHECK: return

// The loop ends where the elements do, and neither its loads nor its stores are masked.
// TILE: scf.for
// TILE-NOT: mask
// TILE: vector.transfer_write {{.*}} {in_bounds = [true]} : vector<{{.*}}xf32>, memref<?xf32>
// TILE: tile.shared
!x = tensor<?x?x64xf32, ["s0~90", "s1~700", 64]>
#id = affine_map<(b, l, c) -> (b, l, c)>
func.func @main(%x: !x) -> (!x, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~90"} : () -> index
  %m = "graph.size"() {size = "s1~700"} : () -> index
  %e = tensor.empty(%n, %m) : !x
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !x
  %f = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, affine_map<(b, l, c) -> (c)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%y : !x) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %y, %s : !x, tensor<64xf32>
}

// -----

// Values of another size than the sum's have a kernel of their own.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"
// CHECK: "graph.group"
// CHECK: "graph.group"
// TILE: func.func
!x = tensor<?x64xf32, ["s0~90000", 64]>
!y = tensor<?x64xf32, ["s1~90000", 64]>
#id = affine_map<(l, c) -> (l, c)>
func.func @main(%x: !x, %z: !y) -> (!y, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s1~90000"} : () -> index
  %e = tensor.empty(%n) : !y
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%z : !y) outs(%e : !y) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !y
  %f = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, affine_map<(l, c) -> (c)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : !x) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %y, %s : !y, tensor<64xf32>
}

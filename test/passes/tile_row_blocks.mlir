// The exponentials of short rows' sums are computed for 16 rows at a time: the sums of 64 rows are stored in scratch memory first.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func private @powers
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<64xf32>
// CHECK: scf.for {{.*}} step %c64
// CHECK: scf.for {{.*}} step %c1
// CHECK: vector.reduction <add>
// CHECK: memref.store {{.*}}, %[[SUMS]]
// CHECK: scf.for {{.*}} step %c16
// CHECK: vector.transfer_read %[[SUMS]]{{.*}} vector<16xf32>
// CHECK: math.exp {{.*}} vector<16xf32>
// CHECK: vector.transfer_write

// A negation costs less than storing and loading the sums.
// CHECK-LABEL: func.func private @negated
// CHECK-NOT: memref.alloca
// GPU-NOT: memref.alloca
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#one = affine_map<(i) -> (i)>
func.func private @powers(%x: tensor<4096x24xf32>) -> tensor<4096xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x24xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %b, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<4096xf32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
func.func private @negated(%x: tensor<4096x24xf32>) -> tensor<4096xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x24xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %b, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<4096xf32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

// What is computed before the sums does not count.
// CHECK-LABEL: func.func private @summed
// CHECK-NOT: memref.alloca
func.func private @summed(%x: tensor<4096x24xf32>) -> tensor<4096xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x24xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = math.exp %a : f32
    %1 = arith.addf %b, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<4096xf32>
  return %s : tensor<4096xf32>
}

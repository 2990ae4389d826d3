// Kernels on a CPU that reduce along columns, with rows as the neighbors of a block.
// RUN: opt-driver %s --pass-pipeline='lamina-tile' --split-input-file | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// exp is computed once: for the sum, and kept for the quotient in scratch memory, 32 rows of 100 at a time.
// CHECK-LABEL: func.func private @kept
// CHECK: %[[KEPT:.*]] = memref.alloca() {{.*}} memref<3200xf32>
// CHECK: scf.for
// CHECK: %[[E:.*]] = math.exp
// CHECK: vector.transfer_write %[[E]], %[[KEPT]]
// CHECK-NOT: math.exp
// CHECK: %[[AGAIN:.*]] = vector.transfer_read %[[KEPT]]
// CHECK: arith.divf %[[AGAIN]]
// CHECK-NOT: math.exp
func.func private @kept(%x: tensor<100x64xf32>) -> tensor<100x64xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %w = tensor.empty() : tensor<100x64xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<100x64xf32>) outs(%w : tensor<100x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<100x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%p : tensor<100x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<100x64xf32>, tensor<64xf32>) outs(%w : tensor<100x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<100x64xf32>
  return %r : tensor<100x64xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// 384 sums are blocks of 128, all whole.
// CHECK-LABEL: func.func private @whole
// CHECK-NOT: vector.create_mask
// CHECK: vector.transfer_read {{.*}} vector<128xf32>
func.func private @whole(%x: tensor<100x384xf32>) -> tensor<384xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<384xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<384xf32>) -> tensor<384xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100x384xf32>) outs(%f : tensor<384xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<384xf32>
  return %s : tensor<384xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// 1000 sums are wide blocks, which read long stretches of each row, and narrow ones for the rest.
// CHECK-LABEL: func.func private @rest
// CHECK: vector.transfer_read {{.*}} {in_bounds = [true]} {{.*}} vector<256xf32>
// CHECK: vector.transfer_read {{.*}} {in_bounds = [true]} {{.*}} vector<64xf32>
// CHECK: vector.create_mask {{.*}} vector<64xi1>
func.func private @rest(%x: tensor<100x1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1000xf32>) -> tensor<1000xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100x1000xf32>) outs(%f : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %s : tensor<1000xf32>
}

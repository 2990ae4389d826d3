// What is summed over rows and returned as well is computed and stored in the loop that sums it: memory is read once.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse,lamina-plan,lamina-tile{target=nvvm:sm_90a})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse,lamina-plan,lamina-tile{target=cpu})' | FileCheck %s

#id = affine_map<(r, c) -> (r, c)>
#column = affine_map<(r, c) -> (c)>

// CHECK-LABEL: func.func private @
// CHECK: scf.for
// CHECK: vector.transfer_read
// CHECK: arith.negf
// CHECK: vector.transfer_write
// CHECK-NOT: arith.negf
// CHECK: return
func.func @main(%x: tensor<256x64xf32>) -> (tensor<256x64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<256x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<256x64xf32>) outs(%e : tensor<256x64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<256x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%y : tensor<256x64xf32>) outs(%zero : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %y, %s : tensor<256x64xf32>, tensor<64xf32>
}

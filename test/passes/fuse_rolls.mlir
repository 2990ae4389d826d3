// A slice reads as much of memory as it has elements, so that a value that is rolled in two dimensions is read once, by one kernel.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse)' --pretty | FileCheck %s

// CHECK-LABEL: func @both
// CHECK-COUNT-1: group @
// CHECK-NOT: group @
// CHECK: return
func.func @both(%x: tensor<64x64x96xf32>) -> tensor<64x64x96xf32> {
  %a = tensor.extract_slice %x[3, 0, 0] [61, 64, 96] [1, 1, 1] : tensor<64x64x96xf32> to tensor<61x64x96xf32>
  %b = tensor.extract_slice %x[0, 0, 0] [3, 64, 96] [1, 1, 1] : tensor<64x64x96xf32> to tensor<3x64x96xf32>
  %rows = tensor.concat dim(0) %a, %b : (tensor<61x64x96xf32>, tensor<3x64x96xf32>) -> tensor<64x64x96xf32>
  %c = tensor.extract_slice %rows[0, 3, 0] [64, 61, 96] [1, 1, 1] : tensor<64x64x96xf32> to tensor<64x61x96xf32>
  %d = tensor.extract_slice %rows[0, 0, 0] [64, 3, 96] [1, 1, 1] : tensor<64x64x96xf32> to tensor<64x3x96xf32>
  %both = tensor.concat dim(1) %c, %d : (tensor<64x61x96xf32>, tensor<64x3x96xf32>) -> tensor<64x64x96xf32>
  return %both : tensor<64x64x96xf32>
}

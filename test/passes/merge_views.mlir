// Dimensions that are merged, moved and split again are moved as they are.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-merge-views,lamina-dce)' | FileCheck %s

// Heads merged with the batch, as nn.MultiheadAttention does.
// CHECK-LABEL: func.func @heads
// CHECK-NEXT: tensor.expand_shape %arg0 {{\[}}[0], [1], [2, 3]] output_shape [197, 32, 12, 64]
// CHECK: %[[MOVED:.*]] = linalg.transpose {{.*}} permutation = [1, 2, 0, 3]
// CHECK-NEXT: return %[[MOVED]] : tensor<32x12x197x64xf32>
func.func @heads(%x: tensor<197x32x768xf32>) -> tensor<32x12x197x64xf32> {
  %flat = tensor.collapse_shape %x [[0], [1, 2]] : tensor<197x32x768xf32> into tensor<197x24576xf32>
  %split = tensor.expand_shape %flat [[0], [1, 2]] output_shape [197, 384, 64] : tensor<197x24576xf32> into tensor<197x384x64xf32>
  %e = tensor.empty() : tensor<384x197x64xf32>
  %t = linalg.transpose ins(%split : tensor<197x384x64xf32>) outs(%e : tensor<384x197x64xf32>) permutation = [1, 0, 2]
  %r = tensor.expand_shape %t [[0, 1], [2], [3]] output_shape [32, 12, 197, 64] : tensor<384x197x64xf32> into tensor<32x12x197x64xf32>
  return %r : tensor<32x12x197x64xf32>
}

// The way back: the heads are merged with their elements alone. Dimensions of one come and go.
// CHECK-LABEL: func.func @back
// CHECK: linalg.transpose {{.*}} permutation = [2, 0, 1, 3]
// CHECK-NEXT: tensor.collapse_shape {{.*}} {{\[}}[0], [1], [2, 3]] : tensor<197x32x12x64xf32> into tensor<197x32x768xf32>
// CHECK-NEXT: tensor.expand_shape {{.*}} output_shape [1, 197, 32, 768]
func.func @back(%x: tensor<32x12x197x1x64xf32>) -> tensor<1x197x32x768xf32> {
  %merged = tensor.collapse_shape %x [[0, 1], [2, 3], [4]] : tensor<32x12x197x1x64xf32> into tensor<384x197x64xf32>
  %e = tensor.empty() : tensor<197x384x64xf32>
  %t = linalg.transpose ins(%merged : tensor<384x197x64xf32>) outs(%e : tensor<197x384x64xf32>) permutation = [1, 0, 2]
  %flat = tensor.collapse_shape %t [[0], [1, 2]] : tensor<197x384x64xf32> into tensor<197x24576xf32>
  %r = tensor.expand_shape %flat [[0, 1], [2, 3]] output_shape [1, 197, 32, 768] : tensor<197x24576xf32> into tensor<1x197x32x768xf32>
  return %r : tensor<1x197x32x768xf32>
}

// What is merged for good stays so, and so does what a reshape cuts through.
// CHECK-LABEL: func.func @merged
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: return
func.func @merged(%x: tensor<4x6x8xf32>) -> tensor<24x8xf32> {
  %r = tensor.collapse_shape %x [[0, 1], [2]] : tensor<4x6x8xf32> into tensor<24x8xf32>
  return %r : tensor<24x8xf32>
}
// CHECK-LABEL: func.func @uneven
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: return
func.func @uneven(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %m = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %r = tensor.expand_shape %m [[0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// A number that becomes dimensions of one element has no factors; they may be transposed.
// CHECK-LABEL: func.func @number
// CHECK-NEXT: tensor.expand_shape
// CHECK: linalg.transpose
func.func @number(%x: tensor<f32>) -> tensor<1x1xf32> {
  %e = tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %o = tensor.empty() : tensor<1x1xf32>
  %r = linalg.transpose ins(%e : tensor<1x1xf32>) outs(%o : tensor<1x1xf32>) permutation = [1, 0]
  return %r : tensor<1x1xf32>
}

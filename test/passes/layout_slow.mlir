// On a CPU only convolutions that oneDNN computes slowly with the channels first, and those beside them with small weights.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{slow=true})' | FileCheck %s

// One filter for each channel, which Lamina's kernel computes with the channels first: as given, and the product of pixels after it.
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT: linalg.generic
// CHECK: strides = [array<i64: 2048, 64, 8, 1>]
// CHECK: strides = [array<i64: 4096, 64, 8, 1>]
func.func @depthwise(%x: tensor<1x32x8x8xf32>, %w: tensor<32x1x3x3xf32>, %v: tensor<64x32x1x1xf32>) -> tensor<1x64x8x8xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 32], kwargs = {}, strides = [array<i64: 2048, 64, 8, 1>]} : (tensor<1x32x8x8xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x8x8xf32>
  %d = "graph.extern"(%c, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 4096, 64, 8, 1>]} : (tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>) -> tensor<1x64x8x8xf32>
  return %d : tensor<1x64x8x8xf32>
}

// -----

// Beside a slow convolution of small weights it takes the channels last.
// CHECK-LABEL: func.func @depthwise_of_ragged
// CHECK: strides = [array<i64: 1536, 1, 192, 24>]
// CHECK: strides = [array<i64: 1536, 1, 192, 24>]
func.func @depthwise_of_ragged(%x: tensor<1x24x8x8xf32>, %w: tensor<24x24x3x3xf32>, %v: tensor<24x1x3x3xf32>) -> tensor<1x24x8x8xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 1536, 64, 8, 1>]} : (tensor<1x24x8x8xf32>, tensor<24x24x3x3xf32>) -> tensor<1x24x8x8xf32>
  %d = "graph.extern"(%c, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 24], kwargs = {}, strides = [array<i64: 1536, 64, 8, 1>]} : (tensor<1x24x8x8xf32>, tensor<24x1x3x3xf32>) -> tensor<1x24x8x8xf32>
  return %d : tensor<1x24x8x8xf32>
}

// -----

// CHECK-LABEL: func.func @transposed
// CHECK: strides = [array<i64: 8192, 1, 512, 32>]
func.func @transposed(%x: tensor<1x16x8x8xf32>, %w: tensor<16x32x2x2xf32>) -> tensor<1x32x16x16xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1], kwargs = {}, strides = [array<i64: 8192, 256, 16, 1>]} : (tensor<1x16x8x8xf32>, tensor<16x32x2x2xf32>) -> tensor<1x32x16x16xf32>
  return %c : tensor<1x32x16x16xf32>
}

// -----

// Channels that fill vectors, alone: as given.
// CHECK-LABEL: func.func @dense
// CHECK-NOT: linalg.generic
// CHECK: strides = [array<i64: 2048, 64, 8, 1>]
func.func @dense(%x: tensor<1x32x8x8xf32>, %w: tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 2048, 64, 8, 1>]} : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  return %c : tensor<1x32x8x8xf32>
}

// -----

// Ragged channels take them last; weights that are larger than the images they meet stay as they are.
// CHECK-LABEL: func.func @ragged
// CHECK: strides = [array<i64: 1536, 1, 192, 24>]
// CHECK: strides = [array<i64: 32768, 64, 8, 1>]
func.func @ragged(%x: tensor<1x24x8x8xf32>, %w: tensor<24x24x3x3xf32>, %y: tensor<1x512x8x8xf32>, %v: tensor<512x512x3x3xf32>) -> (tensor<1x24x8x8xf32>, tensor<1x512x8x8xf32>) {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 1536, 64, 8, 1>]} : (tensor<1x24x8x8xf32>, tensor<24x24x3x3xf32>) -> tensor<1x24x8x8xf32>
  %d = "graph.extern"(%y, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 32768, 64, 8, 1>]} : (tensor<1x512x8x8xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x8x8xf32>
  return %c, %d : tensor<1x24x8x8xf32>, tensor<1x512x8x8xf32>
}

// -----

// Gradients take the layout of the saved image: the result's gradient is copied, the image's has its channels last.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[GRAD:.*]] = linalg.generic
// CHECK: "graph.extern"(%[[GRAD]], %arg1, %arg2)
// CHECK-SAME: needs = [array<i64: 4096, 1, 512, 64>, array<i64: 2048, 1, 256, 32>, array<i64: 32, 1, 32, 32>]
// CHECK-SAME: strides = [array<i64: 2048, 1, 256, 32>, array<i64: 32, 1, 32, 32>, none]
func.func @gradients(%g: tensor<1x64x8x8xf32>, %x: tensor<1x32x8x8xf32> {graph.strides = array<i64: 2048, 1, 256, 32>}, %w: tensor<64x32x1x1xf32>) -> (tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>) {
  %d, %e = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]], kwargs = {}, strides = [array<i64: 2048, 64, 8, 1>, array<i64: 32, 1, 1, 1>, none]} : (tensor<1x64x8x8xf32>, tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>) -> (tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>)
  return %d, %e : tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>
}

// -----

// One saved with its channels first keeps them so.
// CHECK-LABEL: func.func @gradients_first
// CHECK-NOT: needs
// CHECK: strides = [array<i64: 2048, 64, 8, 1>, array<i64: 32, 1, 1, 1>, none]
func.func @gradients_first(%g: tensor<1x64x8x8xf32>, %x: tensor<1x32x8x8xf32>, %w: tensor<64x32x1x1xf32>) -> (tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>) {
  %d, %e = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]], kwargs = {}, strides = [array<i64: 2048, 64, 8, 1>, array<i64: 32, 1, 1, 1>, none]} : (tensor<1x64x8x8xf32>, tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>) -> (tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>)
  return %d, %e : tensor<1x32x8x8xf32>, tensor<64x32x1x1xf32>
}

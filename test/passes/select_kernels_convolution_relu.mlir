// cuDNN's convolution with a ReLU takes a scale and a shift of each channel: the scale goes into the weight, with the copy that puts
// its channels last. It is the default where a library reads the result.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a round-intermediates=true})' --split-input-file | FileCheck %s --check-prefix=ROUNDED

#id = affine_map<(n, c, i, j) -> (n, c, i, j)>
#channel = affine_map<(n, c, i, j) -> (c)>

// CHECK-LABEL: func.func @main
// CHECK-NOT: sym_name = "copy"
// CHECK: %[[WEIGHT:.*]] = "graph.group"(%arg1, %arg2)
// CHECK: arith.mulf {{.*}} : f32
// CHECK: %[[MADE:.*]] = "graph.extern"(%arg0, %[[WEIGHT]], %[[BIAS:.*]]) {args = [unit, unit, unit, [2, 2], [1, 1], [1, 1], 1], callee = "aten.cudnn_convolution_relu.default"{{.*}}strides = [array<i64: 262144, 1, 8192, 128>]}
// CHECK: "graph.extern"(%[[MADE]], %arg4)
// ROUNDED-LABEL: func.func @main
// ROUNDED-NOT: cudnn
func.func @main(%x: tensor<8x64x64x128xbf16> {graph.strides = array<i64: 524288, 1, 8192, 64>}, %w: tensor<128x64x3x3xbf16>, %scale: tensor<128xbf16>, %shift: tensor<128xf32>, %v: tensor<8x128x1x1xbf16>) -> tensor<8x8x32x64xbf16> {
  %last = "graph.group"(%w) ({
  ^bb0(%a: tensor<128x64x3x3xbf16>):
    %o = tensor.empty() : tensor<128x64x3x3xbf16>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<128x64x3x3xbf16>) outs(%o : tensor<128x64x3x3xbf16>) {
    ^bb0(%p: bf16, %u: bf16):
      linalg.yield %p : bf16
    } -> tensor<128x64x3x3xbf16>
    "graph.yield"(%r) : (tensor<128x64x3x3xbf16>) -> ()
  }) {sym_name = "copy"} : (tensor<128x64x3x3xbf16>) -> tensor<128x64x3x3xbf16>
  %0 = "graph.extern"(%x, %last) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 262144, 1, 8192, 128>]} : (tensor<8x64x64x128xbf16>, tensor<128x64x3x3xbf16>) -> tensor<8x128x32x64xbf16>
  %1 = "graph.group"(%0, %scale, %shift) ({
  ^bb0(%a: tensor<8x128x32x64xbf16>, %s: tensor<128xbf16>, %b: tensor<128xf32>):
    %o = tensor.empty() : tensor<8x128x32x64xbf16>
    %r = linalg.generic {indexing_maps = [#id, #channel, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %s, %b : tensor<8x128x32x64xbf16>, tensor<128xbf16>, tensor<128xf32>) outs(%o : tensor<8x128x32x64xbf16>) {
    ^bb0(%p: bf16, %q: bf16, %t: f32, %u: bf16):
      %zero = arith.constant 0.0 : f32
      %wide = arith.extf %p : bf16 to f32
      %by = arith.extf %q : bf16 to f32
      %scaled = arith.mulf %wide, %by : f32
      %shifted = arith.addf %scaled, %t : f32
      %relu = arith.maximumf %shifted, %zero : f32
      %narrow = arith.truncf %relu : f32 to bf16
      linalg.yield %narrow : bf16
    } -> tensor<8x128x32x64xbf16>
    "graph.yield"(%r) : (tensor<8x128x32x64xbf16>) -> ()
  }) {sym_name = "norm_relu"} : (tensor<8x128x32x64xbf16>, tensor<128xbf16>, tensor<128xf32>) -> tensor<8x128x32x64xbf16>
  %2 = "graph.extern"(%1, %v) {args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 1, 512, 8>]} : (tensor<8x128x32x64xbf16>, tensor<8x128x1x1xbf16>) -> tensor<8x8x32x64xbf16>
  return %2 : tensor<8x8x32x64xbf16>
}

// -----

#id = affine_map<(n, c, i, j) -> (n, c, i, j)>

// What is returned row-major is written by Lamina's kernel anyhow.
// CHECK-LABEL: func.func @returned
// CHECK-NOT: cudnn
// ROUNDED-LABEL: func.func @returned
func.func @returned(%x: tensor<8x64x32x64xbf16> {graph.strides = array<i64: 131072, 1, 4096, 64>}, %w: tensor<128x64x1x1xbf16>) -> (tensor<8x128x32x64xbf16>) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 262144, 1, 8192, 128>]} : (tensor<8x64x32x64xbf16>, tensor<128x64x1x1xbf16>) -> tensor<8x128x32x64xbf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<8x128x32x64xbf16>):
    %o = tensor.empty() : tensor<8x128x32x64xbf16>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<8x128x32x64xbf16>) outs(%o : tensor<8x128x32x64xbf16>) {
    ^bb0(%p: bf16, %u: bf16):
      %zero = arith.constant 0.0 : bf16
      %relu = arith.maximumf %p, %zero : bf16
      linalg.yield %relu : bf16
    } -> tensor<8x128x32x64xbf16>
    "graph.yield"(%r) : (tensor<8x128x32x64xbf16>) -> ()
  }) {sym_name = "relu"} : (tensor<8x128x32x64xbf16>) -> tensor<8x128x32x64xbf16>
  return %1 : tensor<8x128x32x64xbf16>
}

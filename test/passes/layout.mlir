// A convolution whose weight is an argument gives its channels last; plan lets the kernel that feeds it write the same layout.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout,lamina-fuse,lamina-plan)' | FileCheck %s --check-prefix=PLAN
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout{packed=false copied=true})' | FileCheck %s --check-prefix=COPIED
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout{types=f16,bf16})' | FileCheck %s --check-prefix=TYPES

// COPIED: strides = [array<i64: 512, 1, 64, 8>]
// COPIED: strides = [array<i64: 256, 1, 32, 4>]
// COPIED-LABEL: func.func @with_relu
// COPIED: callee = "aten.cudnn_convolution_relu.default"{{.*}}strides = [array<i64: 512, 1, 64, 8>]
// COPIED-LABEL: func.func @grouped
// COPIED: %[[COPY:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x4x8x8xf32>)
// COPIED: "graph.extern"(%[[COPY]], {{.*}}strides = [array<i64: 256, 1, 32, 4>]
// TYPES-NOT: array<i64: 512, 1, 64, 8>

#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// CHECK-LABEL: func.func @main
// CHECK: callee = "aten.convolution.default"{{.*}}strides = [array<i64: 512, 1, 64, 8>]
// CHECK: callee = "aten.convolution.default"{{.*}}strides = [array<i64: 256, 64, 8, 1>]

// PLAN: "plan.alloc"() {{.*}} -> memref<1x4x8x8xf32, strided<[{{[0-9]+}}, 1, 32, 4]>>
// PLAN: "plan.launch"
// PLAN: "plan.call"
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x1x1xf32>, %v: tensor<4x8x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x4x8x8xf32>) outs(%e : tensor<1x4x8x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1x4x8x8xf32>
  %c = "graph.extern"(%y, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x8x8xf32>
  // A weight that is computed is not packed: the layout stays.
  %e2 = tensor.empty() : tensor<4x8x1x1xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<4x8x1x1xf32>) outs(%e2 : tensor<4x8x1x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x8x1x1xf32>
  %d = "graph.extern"(%c, %n) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 256, 64, 8, 1>]} : (tensor<1x8x8x8xf32>, tensor<4x8x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %d : tensor<1x4x8x8xf32>
}

// cuDNN's call with a ReLU, which has no flag for transposed convolutions.
func.func @with_relu(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>, %b: tensor<8xf32>) -> tensor<1x8x8x8xf32> {
  %c = "graph.extern"(%x, %w, %b) {callee = "aten.cudnn_convolution_relu.default", reason = "library", args = [unit, unit, unit, [1, 1], [1, 1], [1, 1], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  return %c : tensor<1x8x8x8xf32>
}

func.func @grouped(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 4], kwargs = {}, strides = [array<i64: 256, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<4x1x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %c : tensor<1x4x8x8xf32>
}

// A convolution whose weight is an argument gives its channels last; plan lets the kernel that feeds it write the same layout.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout,lamina-fuse,lamina-plan)' | FileCheck %s --check-prefix=PLAN
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-layout{slow=true})' | FileCheck %s --check-prefix=COPIED

// COPIED-LABEL: func.func @with_bias
// COPIED: %[[IMAGE:.*]] = linalg.generic {{.*}} ins(%arg0
// COPIED: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%arg1
// COPIED: "graph.extern"(%[[IMAGE]], %[[WEIGHT]], %arg2) {{.*}}callee = "aten.convolution.default"{{.*}}strides = [array<i64: 512, 1, 64, 8>]
// COPIED-LABEL: func.func @given
// COPIED-NOT: linalg.generic
// COPIED: "graph.extern"(%arg0, %arg1)
// COPIED-LABEL: func.func @through_views
// COPIED: %[[PRODUCT:.*]] = "graph.extern"(%arg0, %arg1) {{.*}}aten.mm.default
// COPIED-NOT: linalg.generic
// COPIED: %[[ROWS:.*]] = tensor.expand_shape %[[PRODUCT]]
// COPIED: %[[IMAGE:.*]] = linalg.transpose ins(%[[ROWS]]
// COPIED: "graph.extern"(%[[IMAGE]], %arg2) {{.*}}strides = [array<i64: 512, 1, 64, 8>]
// COPIED: %[[MADE:.*]] = linalg.transpose
// COPIED: "graph.extern"(%[[MADE]], %arg2) {{.*}}strides = [array<i64: 512, 1, 64, 8>]
// COPIED: %[[COPY:.*]] = linalg.generic
// COPIED: "graph.extern"(%[[COPY]], %arg2)
// COPIED-LABEL: func.func @grouped
// COPIED: %[[COPY:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x4x8x8xf32>)
// COPIED: "graph.extern"(%[[COPY]], {{.*}}strides = [array<i64: 256, 1, 32, 4>]
// COPIED-LABEL: func.func @filled_up
// COPIED: %[[SIXTEEN:.*]] = tensor.collapse_shape
// COPIED-NOT: linalg.generic
// COPIED: "graph.extern"(%arg0, %[[SIXTEEN]])
// COPIED-LABEL: func.func @rows
// COPIED-NOT: linalg.generic
// COPIED: "graph.extern"(%arg0, %expanded)

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

// A convolution with a bias.
func.func @with_bias(%x: tensor<1x4x8x8xf32>, %w: tensor<8x4x3x3xf32>, %b: tensor<8xf32>) -> tensor<1x8x8x8xf32> {
  %c = "graph.extern"(%x, %w, %b) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  return %c : tensor<1x8x8x8xf32>
}

// An image and a weight that the caller gives with their channels last.
func.func @given(%x: tensor<1x4x8x8xf32> {graph.strides = array<i64: 256, 1, 32, 4>}, %w: tensor<8x4x3x3xf32> {graph.strides = array<i64: 36, 1, 12, 4>}) -> tensor<1x8x8x8xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %c : tensor<1x8x8x8xf32>
}

// Beside a convolution that is slow with its channels first, all take them last. A product of patches has its channels last as it is, and so has what a kernel makes; a product of other rows is copied.
func.func @through_views(%a: tensor<64x16xf32>, %b: tensor<16x4xf32>, %w: tensor<8x4x1x1xf32>, %c: tensor<4x16xf32>, %d: tensor<16x64xf32>, %k: tensor<1x4x8x8xf32> {graph.strides = array<i64: 256, 1, 32, 4>}, %l: tensor<8x4x3x3xf32> {graph.strides = array<i64: 36, 1, 12, 4>}) -> (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) {
  %p = "graph.extern"(%a, %b) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 4, 1>]} : (tensor<64x16xf32>, tensor<16x4xf32>) -> tensor<64x4xf32>
  %r = tensor.expand_shape %p [[0, 1, 2], [3]] output_shape [1, 8, 8, 4] : tensor<64x4xf32> into tensor<1x8x8x4xf32>
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %t = linalg.transpose ins(%r : tensor<1x8x8x4xf32>) outs(%e : tensor<1x4x8x8xf32>) permutation = [0, 3, 1, 2]
  %0 = "graph.extern"(%t, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x8x8xf32>
  %e2 = tensor.empty() : tensor<1x8x8x4xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x8x8x4xf32>) outs(%e2 : tensor<1x8x8x4xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %neg = arith.negf %in : f32
    linalg.yield %neg : f32
  } -> tensor<1x8x8x4xf32>
  %u = linalg.transpose ins(%n : tensor<1x8x8x4xf32>) outs(%e : tensor<1x4x8x8xf32>) permutation = [0, 3, 1, 2]
  %1 = "graph.extern"(%u, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x8x8xf32>
  %q = "graph.extern"(%c, %d) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 64, 1>]} : (tensor<4x16xf32>, tensor<16x64xf32>) -> tensor<4x64xf32>
  %v = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [1, 4, 8, 8] : tensor<4x64xf32> into tensor<1x4x8x8xf32>
  %2 = "graph.extern"(%v, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x8x8xf32>
  %slow = "graph.extern"(%k, %l) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %0, %1, %2, %slow : tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>
}

func.func @grouped(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x1x1xf32>, %k: tensor<1x4x8x8xf32> {graph.strides = array<i64: 256, 1, 32, 4>}, %l: tensor<8x4x3x3xf32> {graph.strides = array<i64: 36, 1, 12, 4>}) -> (tensor<1x4x8x8xf32>, tensor<1x8x8x8xf32>) {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 4], kwargs = {}, strides = [array<i64: 256, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<4x1x1x1xf32>) -> tensor<1x4x8x8xf32>
  %slow = "graph.extern"(%k, %l) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %c, %slow : tensor<1x4x8x8xf32>, tensor<1x8x8x8xf32>
}

// A weight that is filled up with zeros has its channels first if nothing is done; one of 1x1 pixels has them last in any case.
func.func @filled_up(%x: tensor<1x16x8x8xf32> {graph.strides = array<i64: 1024, 1, 128, 16>}, %w: tensor<8x3x2x4x4xf32>) -> tensor<1x8x5x5xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %w low[0, 0, 0, 0, 0] high[0, 5, 0, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index, %m: index):
    tensor.yield %zero : f32
  } : tensor<8x3x2x4x4xf32> to tensor<8x8x2x4x4xf32>
  %v = tensor.collapse_shape %p [[0], [1, 2], [3], [4]] : tensor<8x8x2x4x4xf32> into tensor<8x16x4x4xf32>
  %c = "graph.extern"(%x, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 200, 25, 5, 1>]} : (tensor<1x16x8x8xf32>, tensor<8x16x4x4xf32>) -> tensor<1x8x5x5xf32>
  return %c : tensor<1x8x5x5xf32>
}

func.func @rows(%x: tensor<1x4x8x8xf32> {graph.strides = array<i64: 256, 1, 32, 4>}, %w: tensor<8x4xf32>, %k: tensor<1x4x8x8xf32> {graph.strides = array<i64: 256, 1, 32, 4>}, %l: tensor<8x4x3x3xf32> {graph.strides = array<i64: 36, 1, 12, 4>}) -> (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) {
  %v = tensor.expand_shape %w [[0], [1, 2, 3]] output_shape [8, 4, 1, 1] : tensor<8x4xf32> into tensor<8x4x1x1xf32>
  %c = "graph.extern"(%x, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x8x8xf32>
  %slow = "graph.extern"(%k, %l) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>]} : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  return %c, %slow : tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>
}

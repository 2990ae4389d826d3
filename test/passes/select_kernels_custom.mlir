// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels)' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{round-intermediates=true})' --split-input-file | FileCheck %s --check-prefix=ROUND

// A bias and a relu are computed in the kernel, which reads the bias by the column.
// CHECK-LABEL: func.func @bias
// CHECK-NEXT: %[[OUT:.*]] = "graph.kernel"(%arg0, %arg1) {callee = "lamina.kernel.default"
// CHECK-SAME: \22dims\22: {{\[\[}}4, 8], [8, 1]]
// CHECK-SAME: \22lines\22: {{\[}}[\22value\22, \22f32\22], [\22load\22, 1, 0, [0, 1], \22f32\22], [\22apply\22, \22arith.addf\22, [0, 1], null, \22f32\22]
// CHECK-SAME: \22results\22: {{\[\[}}2, \22f16\22]]}"
// CHECK-SAME: needs = [array<i64: 8, 1>, array<i64: 1>], strides = [array<i64: 8, 1>]
// CHECK-NEXT: return %[[OUT]]
// ROUND-LABEL: func.func @bias
// ROUND: [\22value\22, \22f32\22], [\22apply\22, \22arith.truncf\22, [0], null, \22f16\22], [\22apply\22, \22arith.extf\22, [1], null
func.func @bias(%x: tensor<4x8xf16>, %b: tensor<8xf32>) -> tensor<4x8xf16> {
  %0 = "graph.kernel"(%x) {callee = "lamina.kernel.default", kwargs = {hook = "epilogue operands"}, needs = [array<i64: 8, 1>], strides = [array<i64: 8, 1>]} : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %1 = "graph.group"(%0, %b) ({
  ^bb0(%v: tensor<4x8xf16>, %c: tensor<8xf32>):
    %e = tensor.empty() : tensor<4x8xf16>
    %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v, %c : tensor<4x8xf16>, tensor<8xf32>) outs(%e : tensor<4x8xf16>) {
    ^bb0(%in: f16, %bias: f32, %out: f16):
      %wide = arith.extf %in : f16 to f32
      %sum = arith.addf %wide, %bias : f32
      %done = arith.truncf %sum : f32 to f16
      linalg.yield %done : f16
    } -> tensor<4x8xf16>
    "graph.yield"(%2) : (tensor<4x8xf16>) -> ()
  }) {sym_name = "add"} : (tensor<4x8xf16>, tensor<8xf32>) -> tensor<4x8xf16>
  return %1 : tensor<4x8xf16>
}

// -----

// Without a hook, or where the group reads elements of other places, nothing changes.
// CHECK-LABEL: func.func @apart
// CHECK: "graph.group"
// CHECK: "graph.group"
func.func @apart(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "graph.kernel"(%x) {callee = "lamina.kernel.default", kwargs = {hook = ""}, needs = [array<i64: 4, 1>], strides = [array<i64: 4, 1>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "graph.kernel"(%x) {callee = "lamina.kernel.default", kwargs = {hook = "epilogue operands"}, needs = [array<i64: 4, 1>], strides = [array<i64: 4, 1>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "graph.group"(%0) ({
  ^bb0(%v: tensor<4x4xf32>):
    %e = tensor.empty() : tensor<4x4xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %sum = arith.addf %in, %in : f32
      linalg.yield %sum : f32
    } -> tensor<4x4xf32>
    "graph.yield"(%3) : (tensor<4x4xf32>) -> ()
  }) {sym_name = "add"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "graph.group"(%1) ({
  ^bb0(%v: tensor<4x4xf32>):
    %e = tensor.empty() : tensor<4x4xf32>
    %5 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %sum = arith.addf %in, %in : f32
      linalg.yield %sum : f32
    } -> tensor<4x4xf32>
    "graph.yield"(%5) : (tensor<4x4xf32>) -> ()
  }) {sym_name = "turn"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A user's kernel is compiled with the config that is chosen, by default the first; then it lists none any more.
// CHECK-LABEL: func.func @configs
// CHECK-NEXT: "graph.kernel"(%arg0) {callee = "lamina.kernel.default", kwargs = {call = "a", grid = [4, 1, 1], hook = "", warps = 4 : i64}
// CHECK-NEXT: "graph.kernel"(%arg0) {callee = "lamina.kernel.default", kwargs = {call = "b", grid = [2, 1, 1], hook = "", warps = 8 : i64}
func.func @configs(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "graph.kernel"(%x) {callee = "lamina.kernel.default", kwargs = {call = "a", grid = [4, 1, 1], hook = "", warps = 4 : i64, alternatives = "{\22N=1\22: {\22call\22: \22a\22, \22grid\22: [4, 1, 1], \22warps\22: 4}, \22N=2\22: {\22call\22: \22b\22, \22grid\22: [2, 1, 1], \22warps\22: 8}}"}, needs = [array<i64: 1>], strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "graph.kernel"(%x) {callee = "lamina.kernel.default", graph.choice = "custom{config=N=2}", kwargs = {call = "a", grid = [4, 1, 1], hook = "", warps = 4 : i64, alternatives = "{\22N=1\22: {\22call\22: \22a\22, \22grid\22: [4, 1, 1], \22warps\22: 4}, \22N=2\22: {\22call\22: \22b\22, \22grid\22: [2, 1, 1], \22warps\22: 8}}"}, needs = [array<i64: 1>], strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

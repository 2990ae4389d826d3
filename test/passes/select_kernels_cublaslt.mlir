// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels)' --split-input-file | FileCheck %s
// RUN: not opt-driver %p/Inputs/select_kernels_cublaslt_errors.mlir --pass-pipeline='builtin.module(lamina-select-kernels)' 2>&1 | FileCheck %s --check-prefix=ERROR

// The library computes the ReLU that is all that follows: the group is gone, its views stay.
// CHECK-LABEL: func.func @relu
// CHECK-NEXT: %[[CALL:.*]] = "graph.extern"(%arg0, %arg1, %arg2)
// CHECK-SAME: callee = "aten._addmm_activation.default"
// CHECK-SAME: kwargs = {use_gelu = false}
// CHECK-NEXT: tensor.expand_shape %[[CALL]]
// CHECK-NEXT: return
func.func @relu(%bias: tensor<64xbf16>, %x: tensor<256x32xbf16>, %w: tensor<32x64xbf16>) -> tensor<2x128x64xbf16> {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "cublaslt"} : (tensor<64xbf16>, tensor<256x32xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<256x64xbf16>):
    %zero = arith.constant 0.0 : bf16
    %e = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 128, 64] : tensor<256x64xbf16> into tensor<2x128x64xbf16>
    %o = tensor.empty() : tensor<2x128x64xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e : tensor<2x128x64xbf16>) outs(%o : tensor<2x128x64xbf16>) {
    ^bb0(%p: bf16, %q: bf16):
      %s = arith.maximumf %p, %zero : bf16
      linalg.yield %s : bf16
    } -> tensor<2x128x64xbf16>
    "graph.yield"(%r) : (tensor<2x128x64xbf16>) -> ()
  }) {sym_name = "relu"} : (tensor<256x64xbf16>) -> tensor<2x128x64xbf16>
  return %1 : tensor<2x128x64xbf16>
}

// -----

// GELU by tanh, and a product by 2 that stays a kernel of ours: it reads what the library has rounded.
// CHECK-LABEL: func.func @gelu
// CHECK: kwargs = {use_gelu = true}
// CHECK: "graph.group"
// CHECK-NOT: math.exp
// CHECK: arith.extf
// CHECK: arith.mulf
// CHECK: arith.truncf
// CHECK: "graph.yield"
func.func @gelu(%bias: tensor<64xf16>, %x: tensor<256x32xf16>, %w: tensor<32x64xf16>) -> tensor<256x64xf16> {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "cublaslt"} : (tensor<64xf16>, tensor<256x32xf16>, tensor<32x64xf16>) -> tensor<256x64xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<256x64xf16>):
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %c0 = arith.constant -1.59576917 : f32
    %c1 = arith.constant 0.0713548139 : f32
    %o = tensor.empty() : tensor<256x64xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<256x64xf16>) outs(%o : tensor<256x64xf32>) attrs = {graph.pattern = "gelu_tanh"} {
    ^bb0(%p: f16, %q: f32):
      %v = arith.extf %p : f16 to f32
      %v2 = arith.mulf %v, %v : f32
      %t = arith.mulf %v2, %c1 : f32
      %u = arith.subf %c0, %t : f32
      %m = arith.mulf %v, %u : f32
      %y = math.exp %m : f32
      %d = arith.addf %y, %one : f32
      %r = arith.divf %v, %d : f32
      linalg.yield %r : f32
    } -> tensor<256x64xf32>
    %h = tensor.empty() : tensor<256x64xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<256x64xf32>) outs(%h : tensor<256x64xf16>) {
    ^bb0(%p: f32, %q: f16):
      %s = arith.mulf %p, %two : f32
      %n = arith.truncf %s : f32 to f16
      linalg.yield %n : f16
    } -> tensor<256x64xf16>
    "graph.yield"(%r) : (tensor<256x64xf16>) -> ()
  }) {sym_name = "gelu_mul"} : (tensor<256x64xf16>) -> tensor<256x64xf16>
  return %1 : tensor<256x64xf16>
}

// ERROR: select_kernels_cublaslt_errors.mlir:2{{.*}}error: cublaslt cannot compute this: no ReLU or GELU by tanh follows a product with a bias

// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-rewrite-patterns,lamina-dce)' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-rewrite-patterns{rules=silu},lamina-dce)' | FileCheck %s --check-prefix=SILU
// RUN: not opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-rewrite-patterns{rules=swish})' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: no rule 'swish' among the patterns (one of gelu_erf, gelu_tanh, layer_norm, rms_norm, silu)

#id = affine_map<(d0, d1) -> (d0, d1)>

// GELU in pieces, bracketed as (x * 0.5) * (erf(x / 1.4142135) + 1), the last product swapped.
// CHECK-LABEL: func.func @gelu
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4x8xf32>) {{.*}} attrs = {graph.pattern = "gelu_erf"}
// CHECK: math.erf
// CHECK-NOT: linalg.generic
// CHECK: return
// SILU-LABEL: func.func @gelu
// SILU-NOT: graph.pattern
func.func @gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 1.4142135 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.mulf %a, %half : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.divf %a, %root : f32
    %w = math.erf %v : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.addf %b, %one : f32
    %w = arith.mulf %v, %a : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// GELU by tanh with pow(x, 3) becomes one exp and one division. Another constant than 0.044715 is not GELU.
// CHECK-LABEL: func.func @gelu_tanh
// CHECK: graph.pattern = "gelu_tanh"
// CHECK: math.exp
// CHECK: arith.divf
// CHECK-NOT: graph.pattern
// CHECK: math.tanh
func.func @gelu_tanh(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.7978845 : f32
  %c = arith.constant 0.044715 : f32
  %d = arith.constant 0.04 : f32
  %three = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %p = math.powf %a, %three : f32
    %q = arith.mulf %p, %c : f32
    %r = arith.addf %a, %q : f32
    %s = arith.mulf %r, %root : f32
    %t = math.tanh %s : f32
    %u = arith.addf %t, %one : f32
    %v = arith.mulf %a, %half : f32
    %w = arith.mulf %u, %v : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %p = math.powf %a, %three : f32
    %q = arith.mulf %p, %d : f32
    %r = arith.addf %a, %q : f32
    %s = arith.mulf %r, %root : f32
    %t = math.tanh %s : f32
    %u = arith.addf %t, %one : f32
    %v = arith.mulf %a, %half : f32
    %w = arith.mulf %u, %v : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// SiLU of a bf16 tensor that computes in f32. The second sigmoid is a result of its own: it is not computed twice.
// CHECK-LABEL: func.func @silu
// CHECK: graph.pattern = "silu"
// CHECK: arith.extf
// CHECK-NOT: graph.pattern
// CHECK: return
// SILU-LABEL: func.func @silu
// SILU: graph.pattern = "silu"
func.func @silu(%x: tensor<8xbf16>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: bf16, %out: f32):
    %v = arith.extf %a : bf16 to f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %n = arith.negf %a : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %v = arith.divf %one, %q : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%1, %0 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %n = arith.negf %a : f32
    %p = math.exp %n : f32
    %q = arith.addf %p, %one : f32
    %v = arith.divf %one, %q : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %4 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%3, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %2, %3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1, 0)>

// RMSNorm over the last of three dimensions, by a division by the root: per row one rsqrt.
// CHECK-LABEL: func.func @rms_norm
// CHECK: graph.pattern = "rms_norm"
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: graph.pattern = "rms_norm"
// CHECK: math.rsqrt
// CHECK: graph.pattern = "rms_norm"
// CHECK: arith.mulf
// CHECK-NOT: math.sqrt
func.func @rms_norm(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %zero = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-06 : f32
  %e = tensor.empty() : tensor<2x3x8xf32>
  %f = tensor.empty() : tensor<2x3x1xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x3x8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.mulf %a, %a : f32
    linalg.yield %v : f32
  } -> tensor<2x3x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%f : tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %2 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0 : tensor<2x3x8xf32>) outs(%1 : tensor<2x3x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %out : f32
    linalg.yield %v : f32
  } -> tensor<2x3x1xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%2 : tensor<2x3x1xf32>) outs(%f : tensor<2x3x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.divf %a, %eight : f32
    %w = arith.addf %v, %eps : f32
    %u = math.sqrt %w : f32
    linalg.yield %u : f32
  } -> tensor<2x3x1xf32>
  %4 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %3 : tensor<2x3x8xf32>, tensor<2x3x1xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x3x8xf32>
  return %4 : tensor<2x3x8xf32>
}

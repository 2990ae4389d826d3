// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

// A mask of positions that hides what comes later and what is further back than eight keys, and keys that are not there: the flags say
// the first, bounds and a mask of keys the second. The mask itself is not made.
// CHECK-LABEL: func.func @window_and_keys
// CHECK: %[[KEYS:.*]] = "graph.group"(%arg2)
// CHECK-NOT: tensor<2x1x64x64xi1>
// CHECK: sym_name = "keys_1"
// CHECK-SAME: -> tensor<2x1x1x64xi1>
// CHECK: %[[BOUNDS:.*]] = "graph.kernel"(%[[KEYS]]) {{.*}}callee = "lamina.attention_bounds", kwargs = {high = 64 : i64, low = 0 : i64
// CHECK-SAME: -> tensor<2x1x2xi32>
// CHECK: "graph.kernel"(%arg0, %arg1, %arg1, %[[KEYS]], %[[BOUNDS]])
// CHECK-SAME: callee = "lamina.attention_forward", kwargs = {causal = true
// CHECK-SAME: offset = 0 : i64, reads = "mask bounds"
// CHECK-SAME: window = 8 : i64
// CHECK-NOT: graph.group
func.func @window_and_keys(%q: tensor<2x4x64x64xbf16>, %k: tensor<2x4x64x64xbf16>, %there: tensor<2x64xi1>) -> tensor<2x4x64x64xbf16> {
  %m = "graph.group"(%there) ({
  ^bb0(%t: tensor<2x64xi1>):
    %hidden = arith.constant 0xFF80 : bf16
    %zero = arith.constant 0.0 : bf16
    %c8 = arith.constant 8 : index
    %e = tensor.empty() : tensor<2x1x64x64xi1>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, q, k) -> (b, k)>, affine_map<(b, h, q, k) -> (b, h, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t : tensor<2x64xi1>) outs(%e : tensor<2x1x64x64xi1>) {
    ^bb1(%there_k: i1, %o: i1):
      %qi = linalg.index 2 : index
      %ki = linalg.index 3 : index
      %first = arith.subi %qi, %c8 : index
      %past = arith.cmpi sle, %ki, %qi : index
      %near = arith.cmpi sgt, %ki, %first : index
      %both = arith.andi %past, %near : i1
      %seen = arith.andi %both, %there_k : i1
      linalg.yield %seen : i1
    } -> tensor<2x1x64x64xi1>
    %f = tensor.empty() : tensor<2x1x64x64xbf16>
    %b = linalg.generic {indexing_maps = [affine_map<(b, h, q, k) -> (b, h, q, k)>, affine_map<(b, h, q, k) -> (b, h, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x1x64x64xi1>) outs(%f : tensor<2x1x64x64xbf16>) {
    ^bb1(%x: i1, %o: bf16):
      %y = arith.select %x, %zero, %hidden : bf16
      linalg.yield %y : bf16
    } -> tensor<2x1x64x64xbf16>
    "graph.yield"(%b) : (tensor<2x1x64x64xbf16>) -> ()
  }) {sym_name = "masks"} : (tensor<2x64xi1>) -> tensor<2x1x64x64xbf16>
  %0:2 = "graph.extern"(%q, %k, %k, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 4096, 64, 1>, array<i64: 256, 64, 1>]} : (tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x1x64x64xbf16>) -> (tensor<2x4x64x64xbf16>, tensor<2x4x64xf32>)
  return %0#0 : tensor<2x4x64x64xbf16>
}

// -----

// Lengths are all that hides: no mask is read. Without a choice the mask stays where the library has it.
// CHECK-LABEL: func.func @lengths
// CHECK: %[[BOUNDS:.*]] = "graph.kernel"({{.*}}"lamina.attention_bounds"
// CHECK: "graph.kernel"(%arg0, %arg0, %arg0, %[[BOUNDS]])
// CHECK-SAME: reads = "bounds"
// CHECK: callee = "lamina.attention.default"
func.func @lengths(%q: tensor<2x4x64x64xbf16>, %n: tensor<2xi64>) -> (tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>) {
  %m = "graph.group"(%n) ({
  ^bb0(%t: tensor<2xi64>):
    %e = tensor.empty() : tensor<2x1x1x64xi1>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, q, k) -> (b)>, affine_map<(b, h, q, k) -> (b, h, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t : tensor<2xi64>) outs(%e : tensor<2x1x1x64xi1>) {
    ^bb1(%length: i64, %o: i1):
      %ki = linalg.index 3 : index
      %k = arith.index_cast %ki : index to i64
      %seen = arith.cmpi slt, %k, %length : i64
      linalg.yield %seen : i1
    } -> tensor<2x1x1x64xi1>
    "graph.yield"(%s) : (tensor<2x1x1x64xi1>) -> ()
  }) {sym_name = "masks"} : (tensor<2xi64>) -> tensor<2x1x1x64xi1>
  %0:2 = "graph.extern"(%q, %q, %q, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 4096, 64, 1>, array<i64: 256, 64, 1>]} : (tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x1x1x64xi1>) -> (tensor<2x4x64x64xbf16>, tensor<2x4x64xf32>)
  %1:2 = "graph.extern"(%0#0, %q, %q, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 4096, 64, 1>, array<i64: 256, 64, 1>], graph.choice = "library"} : (tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x1x1x64xi1>) -> (tensor<2x4x64x64xbf16>, tensor<2x4x64xf32>)
  return %0#0, %1#0 : tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>
}

// -----

// A mask of bools that nobody knows: its blocks are listed once for both calls, and what flags say beside it is theirs.
// CHECK-LABEL: func.func @blocks
// CHECK: %[[LISTS:.*]] = "graph.kernel"(%arg1) {{.*}}callee = "lamina.attention_blocks", kwargs = {by_keys = false, causal = true, keys = 70 : i64, m = 32 : i64, n = 16 : i64
// CHECK-SAME: queries = 70 : i64, window = 0 : i64
// CHECK-SAME: -> tensor<2x1x3x7xi32>
// CHECK: "graph.kernel"(%arg0, %arg0, %arg0, %arg1, %[[LISTS]])
// CHECK-SAME: reads = "mask blocks"
// CHECK-NOT: lamina.attention_blocks
// CHECK: "graph.kernel"({{.*}}, %arg0, %arg0, %arg1, %[[LISTS]])
func.func @blocks(%q: tensor<2x4x70x64xbf16>, %m: tensor<2x1x70x70xi1>) -> tensor<2x4x70x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q, %m) {args = [unit, unit, unit, unit, none, 0.0, true, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 17920, 4480, 64, 1>, array<i64: 280, 70, 1>], graph.choice = "forward{m=32 n=16 blocks=1}"} : (tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x1x70x70xi1>) -> (tensor<2x4x70x64xbf16>, tensor<2x4x70xf32>)
  %1:2 = "graph.extern"(%0#0, %q, %q, %m) {args = [unit, unit, unit, unit, none, 0.0, true, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 17920, 4480, 64, 1>, array<i64: 280, 70, 1>], graph.choice = "forward{m=32 n=16 blocks=1}"} : (tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x1x70x70xi1>) -> (tensor<2x4x70x64xbf16>, tensor<2x4x70xf32>)
  return %1#0 : tensor<2x4x70x64xbf16>
}

// -----

// A mask that repeats the keys that are there for all queries: its first row is read.
// CHECK: #[[ROW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, 0, 0, d3)>
// CHECK-LABEL: func.func @same_for_all_queries
// CHECK: linalg.generic {indexing_maps = [#[[ROW]], {{.*}} outs(%{{.*}} : tensor<2x1x1x64xi1>)
// CHECK: callee = "lamina.attention_bounds"
func.func @same_for_all_queries(%q: tensor<2x4x64x64xbf16>, %k: tensor<2x4x64x64xbf16>, %there: tensor<2x64xi1>) -> tensor<2x4x64x64xbf16> {
  %rows = "graph.group"(%there) ({
  ^bb0(%t: tensor<2x64xi1>):
    %e = tensor.empty() : tensor<2x64x64xi1>
    %s = linalg.generic {indexing_maps = [affine_map<(b, q, k) -> (b, k)>, affine_map<(b, q, k) -> (b, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<2x64xi1>) outs(%e : tensor<2x64x64xi1>) {
    ^bb1(%x: i1, %o: i1):
      linalg.yield %x : i1
    } -> tensor<2x64x64xi1>
    "graph.yield"(%s) : (tensor<2x64x64xi1>) -> ()
  }) {sym_name = "repeated"} : (tensor<2x64xi1>) -> tensor<2x64x64xi1>
  %m = tensor.expand_shape %rows [[0], [1, 2], [3]] output_shape [2, 1, 64, 64] : tensor<2x64x64xi1> into tensor<2x1x64x64xi1>
  %0:2 = "graph.extern"(%q, %k, %k, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, ""], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 4096, 64, 1>, array<i64: 256, 64, 1>]} : (tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x1x64x64xi1>) -> (tensor<2x4x64x64xbf16>, tensor<2x4x64xf32>)
  return %0#0 : tensor<2x4x64x64xbf16>
}

// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels)' --split-input-file | FileCheck %s
// RUN: not opt-driver %p/Inputs/select_kernels_errors.mlir --pass-pipeline='builtin.module(lamina-select-kernels)' 2>&1 | FileCheck %s --check-prefix=ERROR

// A product takes the group that alone reads it; its bias and its rounding stand between them.
// CHECK-LABEL: func.func @epilogue
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %arg1, %arg2)
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.extf
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.truncf
// CHECK: tensor.expand_shape
// CHECK: arith.maximumf
// CHECK: "graph.yield"
// CHECK: graph.choice = "triton{m=128 n=64}"
func.func @epilogue(%bias: tensor<64xbf16>, %x: tensor<256x32xbf16>, %w: tensor<32x64xbf16>) -> tensor<2x128x64xbf16> {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=128 n=64}"} : (tensor<64xbf16>, tensor<256x32xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16>
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

// What the library was chosen for stays a call, and so does what nothing was chosen for.
// CHECK-LABEL: func.func @library
// CHECK-COUNT-2: "graph.extern"
func.func @library(%x: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xbf16>) {
  %0 = "graph.extern"(%x, %x) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "library"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %1 = "graph.extern"(%x, %0) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>]} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %0, %1 : tensor<64x64xbf16>, tensor<64x64xbf16>
}

// -----

// Of a group that sums along the rows of the result, the product's kernel yields the sums of blocks of columns, f32, padded where the
// last block is shorter; a group behind it sums these, and does what follows.
// CHECK-LABEL: func.func @row_sums
// CHECK: %[[P:.*]] = "graph.group"(%arg0, %arg1)
// CHECK: tensor.pad {{.*}} low[0, 0, 0] high[0, 0, 24]
// CHECK: tensor.expand_shape {{.*}} output_shape [4, 64, 4, 32]
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: graph.choice = "triton{m=64 n=32}"
// CHECK-SAME: -> tensor<4x64x4xf32>
// CHECK: "graph.group"(%[[P]])
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.negf
// CHECK: -> tensor<4x64xf32>
func.func @row_sums(%x: tensor<4x64x32xf16>, %w: tensor<4x32x104xf16>) -> tensor<4x64xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.bmm.default", kwargs = {}, reason = "library", strides = [array<i64: 6656, 104, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<4x64x32xf16>, tensor<4x32x104xf16>) -> tensor<4x64x104xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<4x64x104xf16>):
    %zero = arith.constant 0.0 : f32
    %o = tensor.empty() : tensor<4x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x64xf32>) -> tensor<4x64xf32>
    %u = tensor.empty() : tensor<4x64x104xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<4x64x104xf16>) outs(%u : tensor<4x64x104xf32>) {
    ^bb0(%p: f16, %q: f32):
      %s = arith.extf %p : f16 to f32
      linalg.yield %s : f32
    } -> tensor<4x64x104xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<4x64x104xf32>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %q, %p : f32
      linalg.yield %s : f32
    } -> tensor<4x64xf32>
    %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<4x64xf32>) outs(%o : tensor<4x64xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.negf %p : f32
      linalg.yield %s : f32
    } -> tensor<4x64xf32>
    "graph.yield"(%n) : (tensor<4x64xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<4x64x104xf16>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// -----

// Sums over the rows: the product's kernel yields those of blocks of rows, with what is stored; a group behind it adds these.
// CHECK-LABEL: func.func @column_sums
// CHECK: %[[P:.*]]:2 = "graph.group"(%arg0, %arg1)
// CHECK: tensor.pad {{.*}} low[0, 0] high[24, 0]
// CHECK: tensor.expand_shape {{.*}} output_shape [2, 64, 96]
// CHECK: iterator_types = ["parallel", "reduction", "parallel"]
// CHECK: graph.choice = "triton{m=64 n=32}"
// CHECK-SAME: -> (tensor<104x96xf32>, tensor<2x96xf32>)
// CHECK: "graph.group"(%[[P]]#1)
// CHECK: iterator_types = ["reduction", "parallel"]
// CHECK: -> tensor<96xf32>
//
// Where those are of parts already (lamina-split-reductions), the group behind it gives these; there is none where blocks are parts.
// CHECK-LABEL: func.func @parts_of_columns
// CHECK: %[[P:.*]] = "graph.group"(%arg0, %arg1)
// CHECK: graph.choice = "triton{m=32 n=32}"
// CHECK-SAME: -> tensor<4x96xf32>
// CHECK: "graph.group"(%[[P]])
// CHECK: output_shape [2, 2, 96]
// CHECK: -> tensor<2x96xf32>
// CHECK-LABEL: func.func @parts_are_blocks
// CHECK: graph.choice = "triton{m=64 n=32}"
// CHECK-SAME: -> tensor<2x96xf32>
// CHECK-NOT: graph.group
func.func @column_sums(%x: tensor<104x32xf16>, %w: tensor<32x96xf16>) -> (tensor<104x96xf32>, tensor<96xf32>) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 96, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<104x32xf16>, tensor<32x96xf16>) -> tensor<104x96xf16>
  %1:2 = "graph.group"(%0) ({
  ^bb0(%a: tensor<104x96xf16>):
    %zero = arith.constant 0.0 : f32
    %o = tensor.empty() : tensor<96xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<96xf32>) -> tensor<96xf32>
    %u = tensor.empty() : tensor<104x96xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<104x96xf16>) outs(%u : tensor<104x96xf32>) {
    ^bb0(%p: f16, %q: f32):
      %s = arith.extf %p : f16 to f32
      linalg.yield %s : f32
    } -> tensor<104x96xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]} ins(%e : tensor<104x96xf32>) outs(%f : tensor<96xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    } -> tensor<96xf32>
    "graph.yield"(%e, %r) : (tensor<104x96xf32>, tensor<96xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<104x96xf16>) -> (tensor<104x96xf32>, tensor<96xf32>)
  return %1#0, %1#1 : tensor<104x96xf32>, tensor<96xf32>
}
func.func @parts_of_columns(%x: tensor<128x32xf16>, %w: tensor<32x96xf16>) -> tensor<2x96xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 96, 1>], graph.choice = "triton{m=32 n=32}"} : (tensor<128x32xf16>, tensor<32x96xf16>) -> tensor<128x96xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<128x96xf16>):
    %f = arith.constant dense<0.0> : tensor<2x96xf32>
    %u = tensor.empty() : tensor<128x96xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<128x96xf16>) outs(%u : tensor<128x96xf32>) {
    ^bb0(%p: f16, %q: f32):
      %s = arith.extf %p : f16 to f32
      linalg.yield %s : f32
    } -> tensor<128x96xf32>
    %t = tensor.expand_shape %e [[0, 1], [2]] output_shape [2, 64, 96] : tensor<128x96xf32> into tensor<2x64x96xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, j)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%t : tensor<2x64x96xf32>) outs(%f : tensor<2x96xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    } -> tensor<2x96xf32>
    "graph.yield"(%r) : (tensor<2x96xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<128x96xf16>) -> tensor<2x96xf32>
  return %1 : tensor<2x96xf32>
}
func.func @parts_are_blocks(%x: tensor<128x32xf16>, %w: tensor<32x96xf16>) -> tensor<2x96xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 96, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<128x32xf16>, tensor<32x96xf16>) -> tensor<128x96xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<128x96xf16>):
    %f = arith.constant dense<0.0> : tensor<2x96xf32>
    %u = tensor.empty() : tensor<128x96xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<128x96xf16>) outs(%u : tensor<128x96xf32>) {
    ^bb0(%p: f16, %q: f32):
      %s = arith.extf %p : f16 to f32
      linalg.yield %s : f32
    } -> tensor<128x96xf32>
    %t = tensor.expand_shape %e [[0, 1], [2]] output_shape [2, 64, 96] : tensor<128x96xf32> into tensor<2x64x96xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, j)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%t : tensor<2x64x96xf32>) outs(%f : tensor<2x96xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    } -> tensor<2x96xf32>
    "graph.yield"(%r) : (tensor<2x96xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<128x96xf16>) -> tensor<2x96xf32>
  return %1 : tensor<2x96xf32>
}

// -----

// Statistics of a norm: the kernel yields what it is of, the sums of blocks of columns, and the sums of squared distances from the
// means of blocks; a group joins these, and another reads the first result once.
// CHECK-LABEL: func.func @norm
// CHECK: %[[P:.*]]:3 = "graph.group"(%arg0, %arg1)
// CHECK: attrs = {graph.centered}
// CHECK: graph.choice = "triton{m=64 n=32}"
// CHECK-SAME: -> (tensor<64x96xf16>, tensor<64x3xf32>, tensor<64x3xf32>)
// CHECK: %[[S:.*]]:2 = "graph.group"(%[[P]]#1, %[[P]]#2)
// CHECK: -> (tensor<64xf32>, tensor<64xf32>)
// CHECK: "graph.group"(%[[S]]#0, %[[S]]#1, %[[P]]#0)
// CHECK: -> tensor<64x96xf32>
func.func @norm(%x: tensor<64x32xf16>, %w: tensor<32x96xf16>) -> tensor<64x96xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 96, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x96xf16>) -> tensor<64x96xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<64x96xf16>):
    %zero = arith.constant 0.0 : f32
    %count = arith.constant 96.0 : f32
    %o = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
    %u = tensor.empty() : tensor<64x96xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<64x96xf16>) outs(%u : tensor<64x96xf32>) {
    ^bb0(%p: f16, %q: f32):
      %s = arith.extf %p : f16 to f32
      linalg.yield %s : f32
    } -> tensor<64x96xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<64x96xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %q, %p : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%e, %r : tensor<64x96xf32>, tensor<64xf32>) outs(%u : tensor<64x96xf32>) {
    ^bb0(%p: f32, %t: f32, %q: f32):
      %m = arith.divf %t, %count : f32
      %s = arith.subf %p, %m : f32
      linalg.yield %s : f32
    } -> tensor<64x96xf32>
    %v = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<64x96xf32>) outs(%u : tensor<64x96xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.mulf %p, %p : f32
      linalg.yield %s : f32
    } -> tensor<64x96xf32>
    %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%v : tensor<64x96xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %q, %p : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d, %z : tensor<64x96xf32>, tensor<64xf32>) outs(%u : tensor<64x96xf32>) {
    ^bb0(%p: f32, %t: f32, %q: f32):
      %s = arith.divf %p, %t : f32
      linalg.yield %s : f32
    } -> tensor<64x96xf32>
    "graph.yield"(%n) : (tensor<64x96xf32>) -> ()
  }) {sym_name = "norm"} : (tensor<64x96xf16>) -> tensor<64x96xf32>
  return %1 : tensor<64x96xf32>
}

// -----

// A group with another reduction cannot be computed in the blocks of the product, which has a kernel of its own.
// CHECK-LABEL: func.func @by_itself
// CHECK: "graph.group"(%arg0, %arg1)
// CHECK: graph.choice = "triton{m=64 n=64}"
// CHECK: "graph.group"
// CHECK: sym_name = "amax"
func.func @by_itself(%x: tensor<4x64x32xf16>, %w: tensor<4x32x64xf16>) -> tensor<4x64xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.bmm.default", kwargs = {}, reason = "library", strides = [array<i64: 4096, 64, 1>], graph.choice = "triton{m=64 n=64}"} : (tensor<4x64x32xf16>, tensor<4x32x64xf16>) -> tensor<4x64x64xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<4x64x64xf16>):
    %zero = arith.constant 0.0 : f32
    %o = tensor.empty() : tensor<4x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x64xf32>) -> tensor<4x64xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a : tensor<4x64x64xf16>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%p: f16, %q: f32):
      %p32 = arith.extf %p : f16 to f32
      %s = arith.maximumf %q, %p32 : f32
      linalg.yield %s : f32
    } -> tensor<4x64xf32>
    "graph.yield"(%r) : (tensor<4x64xf32>) -> ()
  }) {sym_name = "amax"} : (tensor<4x64x64xf16>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// -----

// Two products of one left factor that meet in a group are one kernel.
// CHECK-LABEL: func.func @pair
// CHECK-NOT: graph.extern
// CHECK: "graph.group"(%arg0, %arg1, %arg2)
// CHECK-COUNT-2: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: "graph.yield"
// CHECK: graph.choice = "triton{m=64 n=32}"
func.func @pair(%x: tensor<64x32xf16>, %w: tensor<32x64xf16>, %v: tensor<32x64xf16>) -> tensor<64x64xf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %1 = "graph.extern"(%x, %v) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %2 = "graph.group"(%0, %1) ({
  ^bb0(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>):
    %o = tensor.empty() : tensor<64x64xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%o : tensor<64x64xf16>) {
    ^bb0(%p: f16, %q: f16, %u: f16):
      %s = arith.mulf %p, %q : f16
      linalg.yield %s : f16
    } -> tensor<64x64xf16>
    "graph.yield"(%r) : (tensor<64x64xf16>) -> ()
  }) {sym_name = "mul"} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  return %2 : tensor<64x64xf16>
}

// -----

// They stay two calls where only one of them has a choice.
// CHECK-LABEL: func.func @one_chosen
// CHECK: graph.extern
// CHECK: "graph.group"
func.func @one_chosen(%x: tensor<64x32xf16>, %w: tensor<32x64xf16>, %v: tensor<32x64xf16>) -> tensor<64x64xf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %1 = "graph.extern"(%x, %v) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>]} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %2 = "graph.group"(%0, %1) ({
  ^bb0(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>):
    %o = tensor.empty() : tensor<64x64xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%o : tensor<64x64xf16>) {
    ^bb0(%p: f16, %q: f16, %u: f16):
      %s = arith.mulf %p, %q : f16
      linalg.yield %s : f16
    } -> tensor<64x64xf16>
    "graph.yield"(%r) : (tensor<64x64xf16>) -> ()
  }) {sym_name = "mul"} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  return %2 : tensor<64x64xf16>
}

// -----

// Halves of the columns of one product that meet in a group are two, side by side.
// CHECK-LABEL: func.func @halves
// CHECK: "graph.group"(%arg0, %arg1)
// CHECK: tensor.extract_slice {{.*}}[0, 0] [32, 32]
// CHECK: tensor.extract_slice {{.*}}[0, 32] [32, 32]
// CHECK: tensor.concat
// CHECK: graph.choice = "triton{m=64 n=32}"
func.func @halves(%x: tensor<64x32xf16>, %w: tensor<32x64xf16>) -> tensor<64x32xf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<64x64xf16>):
    %l = tensor.extract_slice %a[0, 0] [64, 32] [1, 1] : tensor<64x64xf16> to tensor<64x32xf16>
    %r = tensor.extract_slice %a[0, 32] [64, 32] [1, 1] : tensor<64x64xf16> to tensor<64x32xf16>
    %o = tensor.empty() : tensor<64x32xf16>
    %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%l, %r : tensor<64x32xf16>, tensor<64x32xf16>) outs(%o : tensor<64x32xf16>) {
    ^bb0(%p: f16, %q: f16, %u: f16):
      %s = arith.mulf %p, %q : f16
      linalg.yield %s : f16
    } -> tensor<64x32xf16>
    "graph.yield"(%m) : (tensor<64x32xf16>) -> ()
  }) {sym_name = "mul"} : (tensor<64x64xf16>) -> tensor<64x32xf16>
  return %1 : tensor<64x32xf16>
}

// -----

// Of two that different schedules were chosen for, the first takes the group, which reads the other's result.
// CHECK-LABEL: func.func @two_choices
// CHECK: "graph.group"
// CHECK: graph.choice = "triton{m=32 n=32}"
// CHECK: "graph.group"
// CHECK: graph.choice = "triton{m=64 n=32}"
func.func @two_choices(%x: tensor<64x32xf16>, %w: tensor<32x64xf16>, %v: tensor<32x64xf16>) -> tensor<64x64xf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %1 = "graph.extern"(%x, %v) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "triton{m=32 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %2 = "graph.group"(%0, %1) ({
  ^bb0(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>):
    %o = tensor.empty() : tensor<64x64xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%o : tensor<64x64xf16>) {
    ^bb0(%p: f16, %q: f16, %u: f16):
      %s = arith.mulf %p, %q : f16
      linalg.yield %s : f16
    } -> tensor<64x64xf16>
    "graph.yield"(%r) : (tensor<64x64xf16>) -> ()
  }) {sym_name = "mul"} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  return %2 : tensor<64x64xf16>
}

// -----

// Half of a pair: the other product stays a call of the library, whose result the kernel reads.
// CHECK-LABEL: func.func @half
// CHECK: %[[OTHER:.*]] = "graph.extern"(%arg0, %arg2)
// CHECK: "graph.group"(%arg0, %arg1, %[[OTHER]])
// CHECK: graph.choice = "triton{m=64 n=32}"
func.func @half(%x: tensor<64x32xf16>, %w: tensor<32x64xf16>, %v: tensor<32x64xf16>) -> tensor<64x64xf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "first triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %1 = "graph.extern"(%x, %v) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "first triton{m=64 n=32}"} : (tensor<64x32xf16>, tensor<32x64xf16>) -> tensor<64x64xf16>
  %2 = "graph.group"(%0, %1) ({
  ^bb0(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>):
    %o = tensor.empty() : tensor<64x64xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%o : tensor<64x64xf16>) {
    ^bb0(%p: f16, %q: f16, %u: f16):
      %s = arith.mulf %p, %q : f16
      linalg.yield %s : f16
    } -> tensor<64x64xf16>
    "graph.yield"(%r) : (tensor<64x64xf16>) -> ()
  }) {sym_name = "mul"} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  return %2 : tensor<64x64xf16>
}

// -----

// An inner dimension in parts: a group that sums each, and one that adds them in their order and does what follows, here the
// greatest of each row, which blocks of the product could not find.
// CHECK-LABEL: func.func @parts
// CHECK-NOT: graph.extern
// CHECK: %[[P:.*]] = "graph.group"(%arg1, %arg2)
// CHECK: tensor.expand_shape {{.*}} output_shape [64, 4, 32]
// CHECK: tensor.expand_shape {{.*}} output_shape [4, 32, 48]
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: graph.choice = "triton{m=64 n=32 parts=4}"
// CHECK-SAME: -> tensor<4x64x48xf32>
// CHECK: "graph.group"(%[[P]], %arg0)
// CHECK-COUNT-4: arith.addf
// CHECK: arith.truncf
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK-NOT: graph.choice
// CHECK: -> tensor<64xf32>
func.func @parts(%bias: tensor<48xbf16>, %x: tensor<64x128xbf16>, %w: tensor<128x48xbf16>) -> tensor<64xf32> {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 48, 1>], graph.choice = "triton{m=64 n=32 parts=4}"} : (tensor<48xbf16>, tensor<64x128xbf16>, tensor<128x48xbf16>) -> tensor<64x48xbf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<64x48xbf16>):
    %zero = arith.constant 0.0 : f32
    %o = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<64x48xbf16>) outs(%f : tensor<64xf32>) {
    ^bb0(%p: bf16, %q: f32):
      %p32 = arith.extf %p : bf16 to f32
      %s = arith.maximumf %q, %p32 : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "graph.yield"(%r) : (tensor<64xf32>) -> ()
  }) {sym_name = "amax"} : (tensor<64x48xbf16>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// What makes a factor alone is computed in the product's kernel, through views too.
// CHECK-LABEL: func.func @prologue
// CHECK: "graph.group"(%arg1, %arg2, %arg0)
// CHECK: arith.sitofp
// CHECK: linalg.transpose
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: graph.choice = "triton{m=16 n=32}", sym_name = "product"
// CHECK-NEXT: return
func.func @prologue(%x: tensor<8x32xf16>, %w: tensor<64x32xi8>, %s: tensor<64xf16>) -> tensor<8x64xf16> {
  %d = "graph.group"(%w, %s) ({
  ^bb0(%a: tensor<64x32xi8>, %b: tensor<64xf16>):
    %o = tensor.empty() : tensor<64x32xf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x32xi8>, tensor<64xf16>) outs(%o : tensor<64x32xf16>) {
    ^bb0(%p: i8, %q: f16, %u: f16):
      %f = arith.sitofp %p : i8 to f16
      %m = arith.mulf %f, %q : f16
      linalg.yield %m : f16
    } -> tensor<64x32xf16>
    "graph.yield"(%r) : (tensor<64x32xf16>) -> ()
  }) {sym_name = "dequantize"} : (tensor<64x32xi8>, tensor<64xf16>) -> tensor<64x32xf16>
  %e = tensor.empty() : tensor<32x64xf16>
  %t = linalg.transpose ins(%d : tensor<64x32xf16>) outs(%e : tensor<32x64xf16>) permutation = [1, 0]
  %0 = "graph.extern"(%x, %t) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>], graph.choice = "prologue triton{m=16 n=32}"} : (tensor<8x32xf16>, tensor<32x64xf16>) -> tensor<8x64xf16>
  return %0 : tensor<8x64xf16>
}

// -----

// A product of scaled floats of eight bits: their sums are f32, then scaled by rows and columns, then rounded.
// CHECK-LABEL: func.func @scaled
// CHECK: "graph.group"(%arg0, %arg1, %arg2, %arg3)
// CHECK-COUNT-2: arith.extf {{.*}} : f8E4M3FN to f32
// CHECK: arith.addf
// CHECK-COUNT-2: arith.mulf
// CHECK: arith.truncf {{.*}} : f32 to bf16
// CHECK: graph.choice = "triton{m=64 n=32 fast=1}"
func.func @scaled(%x: tensor<64x128xf8E4M3FN>, %w: tensor<128x48xf8E4M3FN>, %a: tensor<64x1xf32>, %b: tensor<1x48xf32>) -> tensor<64x48xbf16> {
  %0 = "graph.extern"(%x, %w, %a, %b) {args = [unit, unit, unit, unit, none, none, "torch.bfloat16", true], callee = "aten._scaled_mm.default", kwargs = {}, needs = [array<i64: 128, 1>, array<i64: 1, 128>, array<i64: 1, 1>, array<i64: 48, 1>], reason = "library", strides = [array<i64: 48, 1>], graph.choice = "triton{m=64 n=32 fast=1}"} : (tensor<64x128xf8E4M3FN>, tensor<128x48xf8E4M3FN>, tensor<64x1xf32>, tensor<1x48xf32>) -> tensor<64x48xbf16>
  return %0 : tensor<64x48xbf16>
}

// ERROR: select_kernels_errors.mlir:2{{.*}}error: triton{m=100} (m is a power of two from 16)

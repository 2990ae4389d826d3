// Fusion decides by bytes moved: what runs over the same rows and columns becomes one group.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A reduction, and what follows it over the same rows, are one group with one result.
// CHECK-LABEL: func.func @normalize
// CHECK: "graph.group"(%arg0)
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.divf
// CHECK: "graph.yield"(%{{.*}}) : (tensor<8x16xf32>) -> ()
// CHECK-NOT: graph.group
// CHECK: return
func.func @normalize(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %o = tensor.empty() : tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<8x16xf32>, tensor<8xf32>) outs(%o : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

// -----

// Two ops that read the same input and have their own results: one group, two results.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @horizontal
// CHECK: %[[R:.*]]:2 = "graph.group"(%arg0)
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @horizontal(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.sin %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.cos %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s, %c : tensor<64xf32>, tensor<64xf32>
}

// -----

// A sum over the rows cannot be at hand in a loop over the columns: two groups.
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @other_axis
// CHECK: "graph.group"
// CHECK: "graph.group"
func.func @other_axis(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %o = tensor.empty() : tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%o : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// Views that feed an external call stay outside and are not copied; the call's result is read by a group.
#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @views
// CHECK: %[[T:.*]] = linalg.transpose ins(%arg1
// CHECK: %[[M:.*]] = "graph.extern"(%arg0, %[[T]])
// CHECK: "graph.group"(%[[M]])
func.func @views(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) permutation = [1, 0]
  %m = "graph.extern"(%x, %t) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 16, 1>]} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %o = tensor.empty() : tensor<4x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x16xf32>) outs(%o : tensor<4x16xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// -----

// A group is named by the model's ops; what was decomposed or found by a pattern is one.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @names
// CHECK: {sym_name = "gelu_silu_sin_mul"}
func.func @names(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = math.erf %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32> loc("aten.gelu.default"("aten.erf.default"("model.py":3:0)))
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"], graph.pattern = "silu"}
      ins(%0 : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32> loc(fused["aten.sigmoid.default"("model.py":4:0), "aten.mul.Tensor"("model.py":4:0)])
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%1 : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = math.sin %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32> loc("aten.sin.default"("model.py":5:0))
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%2 : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.mulf %a, %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32> loc("aten.mul.Tensor"("model.py":6:0))
  return %3 : tensor<64xf32>
}

// -----

// The taps of a window: what is costly is stored for them, unless the machine does much while it moves a byte.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s --check-prefix=BALANCE
#taps = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @taps
// CHECK: "graph.group"(%arg0)
// CHECK: math.erf
// CHECK: "graph.group"
// CHECK: arith.maximumf
// BALANCE-LABEL: func.func @taps
// BALANCE: "graph.group"(%arg0)
// BALANCE-NOT: "graph.group"
// BALANCE: return
func.func @taps(%x: tensor<64xf32>) -> tensor<63xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %g = linalg.generic {indexing_maps = [#taps, #taps], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.erf %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %l = tensor.extract_slice %g[0] [63] [1] : tensor<64xf32> to tensor<63xf32>
  %r = tensor.extract_slice %g[1] [63] [1] : tensor<64xf32> to tensor<63xf32>
  %o = tensor.empty() : tensor<63xf32>
  %m = linalg.generic {indexing_maps = [#taps, #taps, #taps], iterator_types = ["parallel"]} ins(%l, %r : tensor<63xf32>, tensor<63xf32>) outs(%o : tensor<63xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.maximumf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<63xf32>
  return %m : tensor<63xf32>
}

// -----

// Squeeze and excitation: what a channel's mean and its gate are for is computed again where a library stands between them, rather
// than stored by the kernel of the mean; of the two that read it in the same place, one is enough.
#image = affine_map<(d0, d1) -> (d0, d1)>
#channel = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @gate
// CHECK: "graph.group"
// CHECK: "graph.yield"({{.*}}) : (tensor<8x4096xf32>, tensor<8xf32>)
// BALANCE-LABEL: func.func @gate
// BALANCE: %[[SUM:.*]] = "graph.group"(%arg0)
// BALANCE: math.exp
// BALANCE: "graph.yield"({{.*}}) : (tensor<8xf32>) -> ()
// BALANCE: %[[CALL:.*]] = "graph.extern"(%[[SUM]])
// BALANCE: "graph.group"(%arg0, %[[CALL]])
// BALANCE: math.exp
// BALANCE: "graph.yield"({{.*}}) : (tensor<8x4096xf32>)
func.func @gate(%x: tensor<8x4096xf32>) -> tensor<8x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4096xf32>
  %c = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<8xf32>) -> tensor<8xf32>
  %g = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x4096xf32>) outs(%e : tensor<8x4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<8x4096xf32>
  %h = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<8x4096xf32>) outs(%e : tensor<8x4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  } -> tensor<8x4096xf32>
  %y = linalg.generic {indexing_maps = [#image, #image, #image], iterator_types = ["parallel", "parallel"]} ins(%g, %h : tensor<8x4096xf32>, tensor<8x4096xf32>) outs(%e : tensor<8x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x4096xf32>
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<8x4096xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %w = "graph.extern"(%s) {callee = "aten.neg.default", args = [unit], kwargs = {}, strides = [array<i64: 1>], reason = "library"} : (tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel"]} ins(%y, %w : tensor<8x4096xf32>, tensor<8xf32>) outs(%e : tensor<8x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x4096xf32>
  return %m : tensor<8x4096xf32>
}

// -----

// Groups that compute the same are the same text, operands by their first use, wherever their operations stand.
#both = affine_map<(d0) -> (d0)>
// CHECK-LABEL: @same
// CHECK: "graph.group"(%arg1, %arg0) ({
// CHECK: ins(%{{.*}}, %{{.*}} : tensor<8xbf16>, tensor<8xf32>)
// CHECK: "graph.extern"
// CHECK: "graph.group"(%{{.*}}, %arg0) ({
// CHECK: ins(%{{.*}}, %{{.*}} : tensor<8xbf16>, tensor<8xf32>)
func.func @same(%scale: tensor<8xf32>, %x: tensor<8xbf16>) -> tensor<8xbf16> {
  %e = tensor.empty() : tensor<8xbf16>
  %a = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel"]} ins(%x, %scale : tensor<8xbf16>, tensor<8xf32>) outs(%e : tensor<8xbf16>) {
  ^bb0(%p: bf16, %q: f32, %acc: bf16):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.mulf %0, %q : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<8xbf16>
  %c = "graph.extern"(%a) {callee = "aten.neg.default", args = [unit], kwargs = {}, strides = [array<i64: 1>], reason = "library"} : (tensor<8xbf16>) -> tensor<8xbf16>
  %b = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel"]} ins(%c, %scale : tensor<8xbf16>, tensor<8xf32>) outs(%e : tensor<8xbf16>) {
  ^bb0(%p: bf16, %q: f32, %acc: bf16):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.mulf %0, %q : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<8xbf16>
  return %b : tensor<8xbf16>
}

// -----
// Groups are merged up to a number of operations: what is longer is bound by them, and its values cost nothing to store.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{max-cost=12})' | FileCheck %s --check-prefix=COST
// CHECK-LABEL: @long
// CHECK-COUNT-1: "graph.group"
// CHECK-NOT: "graph.group"
// CHECK: return
// COST-LABEL: @long
// COST-COUNT-2: "graph.group"
#one = affine_map<(d0) -> (d0)>
func.func @long(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = math.exp %in : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%a : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %0 = math.exp %in : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// A value that a sum and another kernel read is stored as it was before it was cast to a wider type.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[SUM:.*]]:2 = "graph.group"(%arg0, %arg1)
// CHECK: -> (tensor<64x256x64xbf16>, tensor<256xf32>)
// CHECK: "graph.extern"(%[[SUM]]#1)
// CHECK: "graph.group"(%[[SUM]]#0,
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#mid = affine_map<(d0, d1, d2) -> (d1)>
func.func @narrow(%x: tensor<64x256x64xbf16>, %y: tensor<64x256x64xbf16>) -> (tensor<256xf32>, tensor<64x256x64xf32>) {
  %e = tensor.empty() : tensor<64x256x64xbf16>
  %a = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %y : tensor<64x256x64xbf16>, tensor<64x256x64xbf16>) outs(%e : tensor<64x256x64xbf16>) {
  ^bb0(%p: bf16, %q: bf16, %o: bf16):
    %0 = arith.addf %p, %q : bf16
    %1 = math.exp %0 : bf16
    %2 = math.tanh %1 : bf16
    %3 = math.exp %2 : bf16
    linalg.yield %3 : bf16
  } -> tensor<64x256x64xbf16>
  %f = tensor.empty() : tensor<64x256x64xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<64x256x64xbf16>) outs(%f : tensor<64x256x64xf32>) {
  ^bb0(%p: bf16, %o: f32):
    %0 = arith.extf %p : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<64x256x64xf32>
  %zero = arith.constant dense<0.0> : tensor<256xf32>
  %s = linalg.generic {indexing_maps = [#all, #mid], iterator_types = ["reduction", "parallel", "reduction"]} ins(%w : tensor<64x256x64xf32>) outs(%zero : tensor<256xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.addf %p, %o : f32
    linalg.yield %0 : f32
  } -> tensor<256xf32>
  %g = "graph.extern"(%s) {callee = "aten.sort.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<256xf32>) -> tensor<256xf32>
  %m = linalg.generic {indexing_maps = [#all, #mid, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %g : tensor<64x256x64xf32>, tensor<256xf32>) outs(%f : tensor<64x256x64xf32>) {
  ^bb0(%p: f32, %t: f32, %o: f32):
    %0 = arith.subf %p, %t : f32
    linalg.yield %0 : f32
  } -> tensor<64x256x64xf32>
  return %s, %m : tensor<256xf32>, tensor<64x256x64xf32>
}

// -----

// A sum whose padded columns a slice leaves out is not computed.
// CHECK-LABEL: func.func @hidden
// CHECK-NEXT: %{{.*}} = "graph.group"(%arg1)
// CHECK-NOT: "graph.group"
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
func.func @hidden(%x: tensor<64x32xf32>, %y: tensor<64x1xf32>) -> tensor<64x1xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<64x1xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x32xf32>) outs(%zeros : tensor<64x1xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.addf %p, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64x1xf32>
  %left = tensor.pad %s low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<64x1xf32> to tensor<64x2xf32>
  %right = tensor.pad %y low[0, 1] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<64x1xf32> to tensor<64x2xf32>
  %e = tensor.empty() : tensor<64x2xf32>
  %both = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%left, %right : tensor<64x2xf32>, tensor<64x2xf32>) outs(%e : tensor<64x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.addf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<64x2xf32>
  %cut = tensor.extract_slice %both[0, 1] [64, 1] [1, 1] : tensor<64x2xf32> to tensor<64x1xf32>
  %f = tensor.empty() : tensor<64x1xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%cut : tensor<64x1xf32>) outs(%f : tensor<64x1xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.negf %p : f32
    linalg.yield %0 : f32
  } -> tensor<64x1xf32>
  return %r : tensor<64x1xf32>
}

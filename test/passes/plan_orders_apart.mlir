// Results that users want in orders without a common innermost dimension are made by a kernel each; a kernel that reduces is not
// split: what it stores is transposed by a copy.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>

// CHECK: "plan.launch"({{.*}}) {kernel = @both{{.*}}, n_out = 1 : i64} : (memref<64x32xf32>, memref<64x32xf32>)
// CHECK: "plan.launch"({{.*}}) {kernel = @both{{.*}}, n_out = 1 : i64} : (memref<64x32xf32>, memref<64x32xf32, strided<[1, 64]>>)
// CHECK: "plan.return"
func.func @main(%x: tensor<64x32xf32>) -> (tensor<64x32xf32> {graph.strides = array<i64: 32, 1>}, tensor<32x64xf32> {graph.strides = array<i64: 64, 1>}) {
  %n:2 = "graph.group"(%x) ({
  ^bb0(%a: tensor<64x32xf32>):
    %e = tensor.empty() : tensor<64x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = math.tanh %p : f32
      linalg.yield %0 : f32
    } -> tensor<64x32xf32>
    %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = math.exp %p : f32
      linalg.yield %0 : f32
    } -> tensor<64x32xf32>
    "graph.yield"(%t, %u) : (tensor<64x32xf32>, tensor<64x32xf32>) -> ()
  }) {sym_name = "both"} : (tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>)
  %f = tensor.empty() : tensor<32x64xf32>
  %v = linalg.transpose ins(%n#1 : tensor<64x32xf32>) outs(%f : tensor<32x64xf32>) permutation = [1, 0]
  return %n#0, %v : tensor<64x32xf32>, tensor<32x64xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>

// CHECK: "plan.launch"({{.*}}) {kernel = @norm{{.*}}, n_out = 2 : i64} : (memref<64x32xf32>, memref<64x32xf32>, memref<64x32xf32>)
// CHECK: "plan.launch"({{.*}}) {kernel = @copy
// CHECK: "plan.return"
func.func @main(%x: tensor<64x32xf32>) -> (tensor<64x32xf32> {graph.strides = array<i64: 32, 1>}, tensor<32x64xf32> {graph.strides = array<i64: 64, 1>}) {
  %n:2 = "graph.group"(%x) ({
  ^bb0(%a: tensor<64x32xf32>):
    %z = arith.constant dense<0.0> : tensor<64x1xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<64x32xf32>) outs(%z : tensor<64x1xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = arith.addf %p, %o : f32
      linalg.yield %0 : f32
    } -> tensor<64x1xf32>
    %e = tensor.empty() : tensor<64x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %s : tensor<64x32xf32>, tensor<64x1xf32>) outs(%e : tensor<64x32xf32>) {
    ^bb1(%p: f32, %q: f32, %o: f32):
      %0 = arith.divf %p, %q : f32
      linalg.yield %0 : f32
    } -> tensor<64x32xf32>
    %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = math.exp %p : f32
      linalg.yield %0 : f32
    } -> tensor<64x32xf32>
    "graph.yield"(%t, %u) : (tensor<64x32xf32>, tensor<64x32xf32>) -> ()
  }) {sym_name = "norm"} : (tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>)
  %f = tensor.empty() : tensor<32x64xf32>
  %v = linalg.transpose ins(%n#1 : tensor<64x32xf32>) outs(%f : tensor<32x64xf32>) permutation = [1, 0]
  return %n#0, %v : tensor<64x32xf32>, tensor<32x64xf32>
}

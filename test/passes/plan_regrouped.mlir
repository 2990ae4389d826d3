// A kernel that norms groups of channels-last images reshapes them and back: what it stores besides lies with its channels last, too.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#row = affine_map<(n, g, i) -> (n, g, i)>
#one = affine_map<(n, g, i) -> (n, g, 0)>

// CHECK: "plan.program"
// CHECK: "plan.launch"({{.*}}) {kernel = @norm{{.*}}} : (memref<2x8x4x3xf32, strided<[96, 1, 24, 8]>>, memref<2x8x4x3xf32, strided<[96, 1, 24, 8]>>, memref<2x8x4x3xf32, strided<[96, 1, 24, 8]>>)
// Transposed in between, its elements move: what it stores besides is row-major.
// CHECK: "plan.launch"({{.*}}) {kernel = @shuffle{{.*}}} : (memref<2x8x4x3xf32, strided<[96, 1, 24, 8]>>, memref<2x8x4x3xf32>)
func.func @main(%x: tensor<2x8x4x3xf32> {graph.strides = array<i64: 96, 1, 24, 8>}, %w: tensor<8x8x1x1xf32>)
    -> (tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>) {
  %n:2 = "graph.group"(%x) ({
  ^bb0(%a: tensor<2x8x4x3xf32>):
    %e = tensor.empty() : tensor<2x8x4x3xf32>
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%a : tensor<2x8x4x3xf32>) outs(%e : tensor<2x8x4x3xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = math.tanh %p : f32
      linalg.yield %0 : f32
    } -> tensor<2x8x4x3xf32>
    %c = tensor.collapse_shape %t [[0], [1, 2, 3]] : tensor<2x8x4x3xf32> into tensor<2x96xf32>
    %r = tensor.expand_shape %c [[0], [1, 2]] output_shape [2, 2, 48] : tensor<2x96xf32> into tensor<2x2x48xf32>
    %z = arith.constant dense<0.0> : tensor<2x2x1xf32>
    %s = linalg.generic {indexing_maps = [#row, #one], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%r : tensor<2x2x48xf32>) outs(%z : tensor<2x2x1xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = arith.addf %p, %o : f32
      linalg.yield %0 : f32
    } -> tensor<2x2x1xf32>
    %f = tensor.empty() : tensor<2x2x48xf32>
    %d = linalg.generic {indexing_maps = [#row, #one, #row], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%r, %s : tensor<2x2x48xf32>, tensor<2x2x1xf32>) outs(%f : tensor<2x2x48xf32>) {
    ^bb1(%p: f32, %q: f32, %o: f32):
      %0 = arith.subf %p, %q : f32
      linalg.yield %0 : f32
    } -> tensor<2x2x48xf32>
    %b = tensor.collapse_shape %d [[0], [1, 2]] : tensor<2x2x48xf32> into tensor<2x96xf32>
    %y = tensor.expand_shape %b [[0], [1, 2, 3]] output_shape [2, 8, 4, 3] : tensor<2x96xf32> into tensor<2x8x4x3xf32>
    "graph.yield"(%t, %y) : (tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>) -> ()
  }) {sym_name = "norm"} : (tensor<2x8x4x3xf32>) -> (tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>)
  %m = "graph.group"(%x) ({
  ^bb0(%a: tensor<2x8x4x3xf32>):
    %r = tensor.expand_shape %a [[0], [1, 2], [3], [4]] output_shape [2, 2, 4, 4, 3] : tensor<2x8x4x3xf32> into tensor<2x2x4x4x3xf32>
    %e = tensor.empty() : tensor<2x4x2x4x3xf32>
    %t = linalg.transpose ins(%r : tensor<2x2x4x4x3xf32>) outs(%e : tensor<2x4x2x4x3xf32>) permutation = [0, 2, 1, 3, 4]
    %y = tensor.collapse_shape %t [[0], [1, 2], [3], [4]] : tensor<2x4x2x4x3xf32> into tensor<2x8x4x3xf32>
    "graph.yield"(%y) : (tensor<2x8x4x3xf32>) -> ()
  }) {sym_name = "shuffle"} : (tensor<2x8x4x3xf32>) -> tensor<2x8x4x3xf32>
  return %n#0, %n#1, %m : tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>, tensor<2x8x4x3xf32>
}
